// Whoever fills in a field that belongs to a choice has made that choice.
document.addEventListener("input", ({ target }) => {
  const own = target.closest("label")?.querySelector('input[type="radio"]');
  const above = target.closest(".under")?.previousElementSibling?.querySelector('input[type="radio"]');
  const choice = own ?? above;
  if (choice && choice !== target) choice.checked = true;
});
