// A key behind # in the address, as `belated demo` prints it, fills in the form. Browsers do not send that part.
const key = decodeURIComponent(location.hash.slice(1));
if (key) {
  document.getElementById("key").value = key;
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("main button").focus();
}
