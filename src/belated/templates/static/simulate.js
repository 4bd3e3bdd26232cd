// The page that simulates: shows what has come out after each run, until all are done or somebody stops it.
import { percent, short, show } from "./charts.js";

const at = id => document.getElementById(id);
const COLOURS = ["--arm0", "--arm1", "--arm3", "--arm5", "--arm2"];
const stream = new EventSource(at("results").dataset.run);

function end(words) {
  stream.close();
  at("stop").hidden = true;
  at("state").textContent = words;
  if (!at("progress").hasAttribute("value")) at("progress").value = 0;
}

const lines = (where, kind, texts) => at(where).replaceChildren(...texts.map(text => {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}));

function draw(found) {
  const curves = values => found.learners.map((each, k) => ({ label: each.name, colour: COLOURS[k % COLOURS.length], ...values(each) }));
  const x = [0, ...found.decisions], from0 = values => [0, ...values];
  show("lost", { kind: "line", across: "after decision", x, format: short, from0: true,
    series: curves(each => ({ values: from0(each.lost), low: from0(each.low), high: from0(each.high) })) });
  show("known", { kind: "line", across: "after decision", x, format: percent, range: [0, 1],
    series: curves(each => ({ values: from0(each.known) })) });
}

stream.addEventListener("waiting", () => { at("state").textContent = "Another simulation is running; this one waits for its turn."; });
stream.addEventListener("found", message => {
  const found = JSON.parse(message.data);
  at("progress").value = found.runs;
  at("state").textContent = `${found.runs} of ${found.of} runs.`;
  lines("sentences", "p", found.sentences);
  lines("notes", "li", found.notes);
  draw(found);
  if (found.is_over) end(`Done: ${found.runs} runs.`);
});
stream.addEventListener("problem", message => { end(JSON.parse(message.data).problem); });
stream.addEventListener("over", () => { if (!at("stop").hidden) end("It ended early; the log of the service says why."); });
stream.onopen = () => { if (at("state").textContent === "Starting.") at("state").textContent = "Starting; the very first simulation compiles for up to a minute."; };
stream.onerror = () => end("The service does not answer; try again.");
at("stop").addEventListener("click", () => end(`Stopped after ${at("progress").value} of ${at("progress").max} runs.`));
