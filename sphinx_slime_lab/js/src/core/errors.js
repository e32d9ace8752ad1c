// @ts-check
/** Errors of the engine; twins of `slime/experiment/errors.py`. */

/** An expression that cannot be evaluated. `code` is the same word as in Python. */
export class ExpressionError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** One edit that is not allowed; `reason` says why in both languages. */
export class ChoiceError extends Error {
  /**
   * @param {string} field
   * @param {{zh: string, en: string}} reason
   * @param {string | null} nearest
   */
  constructor(field, reason, nearest) {
    super(reason.en + (nearest === null ? "" : ` Did you mean ${nearest}?`));
    this.field = field;
    this.reason = reason;
    this.nearest = nearest;
  }
}

/** A pasted text, an imported file or a link that is refused as a whole; `reason` says why in both languages. */
export class LoadError extends Error {
  /** @param {{zh: string, en: string}} reason */
  constructor(reason) {
    super(reason.en);
    this.reason = reason;
  }
}
