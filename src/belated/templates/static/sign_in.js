// A key behind #key= in the address, as `belated demo` prints it, fills in the form. Browsers do not send that part.
function fillIn() {
  const [, key] = location.hash.match(/^#key=(.+)$/) ?? [];
  if (!key) return;
  document.getElementById("key").value = decodeURIComponent(key);
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("main button").focus();
}

fillIn();
addEventListener("hashchange", fillIn);
