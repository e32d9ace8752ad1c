// The link to the other language keeps the place in the page, and the experiment of a shared link.
(() => {
  "use strict";
  /** A heading's own id differs by language and stands beside that of its section, which is the author's label. */
  const shared = (hash) => {
    const place = document.getElementById(hash.slice(1));
    return place && place.matches("section > span:empty") ? `#${place.parentElement.id}` : hash;
  };
  const keep = (event) => {
    const link = event.target instanceof Element && event.target.closest("a.slime-language");
    if (link) link.hash = shared(location.hash);
  };
  for (const kind of ["pointerdown", "click"]) document.addEventListener(kind, keep, true);
})();
