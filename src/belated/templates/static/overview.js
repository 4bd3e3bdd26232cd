// The list of experiments: take it anew every ten seconds, in place, unless somebody is using it.

const away = document.getElementById("away"), list = document.getElementById("list");
let seen = new Date(), isAsking = false;

async function renew() {
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    const answer = await fetch(location.href);
    if (answer.redirected) return tell("You are signed out; open the page again to sign in.");
    if (!answer.ok) return tell("The service cannot answer now.");
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    seen = new Date();
    tell("");
    if (!list.contains(document.activeElement)) list.replaceChildren(...page.getElementById("list").childNodes);
  } catch {
    tell("The service does not answer.");
  } finally {
    isAsking = false;
  }
}

function tell(words) {
  away.hidden = !words;
  away.textContent = words && `${words} What is shown was so at ${seen.toISOString().slice(0, 19).replace("T", " ")} UTC.`;
}

setInterval(renew, 10000);
