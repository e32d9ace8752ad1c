// Leads to the new address of a page at once; the reader's own query and anchor go along.
(function () {
  var target = new URL(document.currentScript.dataset.to, location.href);
  target.search = location.search;
  if (location.hash) target.hash = location.hash;
  location.replace(target.href);
})();
