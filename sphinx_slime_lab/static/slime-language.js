// The link to the other language keeps the place in the page, and the experiment of a shared link.
(() => {
  "use strict";
  /** Headings have another id in each language; a label that the author gave them is the same in both. */
  const shared = (hash) => {
    const section = document.getElementById(decodeURIComponent(hash.slice(1)));
    const labels = section ? section.querySelectorAll(":scope > span[id]:empty") : [];
    return labels.length ? `#${labels[labels.length - 1].id}` : hash;
  };
  const keep = (event) => {
    const link = event.target instanceof Element && event.target.closest("a.slime-language");
    if (!link) return;
    try {
      link.hash = shared(location.hash);
    } catch {
      link.hash = location.hash;
    }
  };
  for (const kind of ["pointerdown", "click"]) document.addEventListener(kind, keep, true);
})();
