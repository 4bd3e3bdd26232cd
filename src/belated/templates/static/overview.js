// The list of experiments: take it anew every ten seconds, in place, unless somebody is using it.

async function renew() {
  if (document.hidden) return;
  let answer;
  try { answer = await fetch(location.href); } catch { return; }
  const list = document.getElementById("list");
  if (!answer.ok || answer.redirected || list.contains(document.activeElement)) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  list.replaceChildren(...page.getElementById("list").childNodes);
}

setInterval(renew, 10000);
