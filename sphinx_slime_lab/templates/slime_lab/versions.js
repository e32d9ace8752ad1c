// From a page of one version to the same page of another: versions.html?page=advanced/weight_sync.html#place
(function () {
  var page = new URLSearchParams(location.search).get("page");
  document.querySelectorAll("a[data-tree]").forEach(function (link) {
    if (link.dataset.pages.split(" ").indexOf(page) >= 0) link.setAttribute("href", link.dataset.tree + page + location.hash);
  });
})();
