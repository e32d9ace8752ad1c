// Leads to the reader's language: the one chosen last, else the browser's. Without scripts the page has two links.
(function () {
  var kept = null;
  try { kept = localStorage.getItem("slime-language"); } catch (error) { kept = null; }
  var wanted = kept === "zh" || kept === "en" ? kept
    : (navigator.languages || [navigator.language || "en"]).some(function (tag, at) { return at === 0 && /^zh/i.test(tag); }) ? "zh" : "en";
  location.replace(wanted + "/index.html" + location.hash);
})();
