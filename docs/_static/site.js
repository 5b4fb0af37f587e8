// A formula that is wider than the page scrolls, with the arrows as well.
function makeReachable() {
  for (const formula of document.querySelectorAll("div.math")) {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  }
}

window.addEventListener("load", makeReachable);
window.addEventListener("resize", makeReachable);
