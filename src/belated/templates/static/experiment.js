// The page of an experiment: draws its charts, and follows the experiment while the page is open.
import { percent, short, show } from "./charts.js";

const TOGETHER = 5;  // points of which a mean over time is
const ARMS = 8;  // of a chart; more curves cannot be told apart
const AGAIN = 3000;  // milliseconds until a stream that was refused is tried again
const SILENCE = 50000;  // milliseconds without a word, after which a stream is opened anew
const here = document.getElementById("winner").dataset.name;
const base = "/experiments/" + encodeURIComponent(here);
const live = base + "/live?count=" + document.getElementById("winner").dataset.count;
const content = id => JSON.parse(document.getElementById(id).textContent);
const text = (where, name, value) => where.querySelectorAll(`[data-show="${name}"]`).forEach(each => {
  if (each.textContent !== value) each.textContent = value;
});
const rows = () => new Map([...document.querySelectorAll("#arms tr")].map(row => [row.dataset.arm, row]));
let data = content("data"), known = content("known");

function delayName(seconds) {
  for (const [unit, word] of [[86400, " d"], [3600, " h"], [60, " min"], [1, " s"]])
    if (seconds >= unit) return "≤ " + seconds / unit + word;
  return "≤ " + seconds + " s";
}

// How long outcomes took, from the first bin with something in it to the last. What never came is said, not drawn: it
// would dwarf the rest.
function delays(line, arm) {
  const chosen = line.arms[arm]?.arm, mine = each => arm === "" || each.arm === chosen;
  const bounds = [...line.delay_bounds.map(delayName), "longer"];
  const sums = good => bounds.map((_, k) => sum(line.delays.filter(each => mine(each) && each.good === good).map(each => each.counts[k])));
  const good = sums(true), others = sums(false);
  const full = bounds.map((_, k) => k).filter(k => good[k] + others[k]);
  const from = Math.max(0, Math.min(...full) - 1), to = full.length ? Math.min(bounds.length, Math.max(...full) + 2) : from;
  const missed = sum(line.arms.filter(mine).map(each => each.defaults)), labels = bounds.slice(from, to);
  const givenUp = arm === "" && data.facts["given-up"] !== "0" ? `the learner gave up on ${data.facts["given-up"]}` : "";
  return { kind: "bars", across: "delay", format: short, labels, x: labels.map((_, k) => k),
    empty: missed ? `None of ${short(missed)} outcomes came in time.` : "No outcome has come yet.",
    more: [missed ? `${short(missed)} had no outcome in time` : "", givenUp].filter(Boolean).join("; "),
    also: missed ? [["none in time", 0, missed]] : [],
    series: [
      { label: "good", colour: "--arm2", values: good.slice(from, to) },
      { label: "others", colour: "--arm1", values: others.slice(from, to) }] };
}

// Of many arms those that are chosen most, each in a colour of its own.
function busiest(arms, decisions) {
  if (arms.length <= ARMS) return arms;
  const chosen = [...arms].sort((a, b) => decisions(b) - decisions(a)).slice(0, ARMS);
  return arms.filter(each => chosen.includes(each)).map((each, k) => ({ ...each, colour: "--arm" + k }));
}

// How the level moved by time, not by settled decisions: that of the decisions made until a point, as far back as curves go.
function levels({ length, levels }, totals) {
  const ends = totals.map((_, k) => sum(totals.slice(0, k + 1)));
  return ends.map((end, at) => {
    const begin = ends[at - TOGETHER] ?? 0;
    let all = 0, count = 0;
    for (let k = Math.floor(begin / length); k < Math.min(levels.length, end / length); k++) {
      const both = Math.min(end, (k + 1) * length) - Math.max(begin, k * length);
      if (levels[k] !== null) { all += both * levels[k]; count += both; }
    }
    return count ? all / count : null;
  });
}
const fewer = arms => arms.length > ARMS ? `${ARMS} of ${short(data.n_arms)} arms are drawn, those with the most decisions.` : "";

function charts() {
  const line = data.timeline, end = line.begin + line.outstanding.length * line.seconds, isOver = end <= data.now;
  const x = line.outstanding.map((_, k) => line.begin + (k + 1) * line.seconds);
  if (!isOver) x[x.length - 1] = Math.max(data.now, end - line.seconds);
  const arms = line.arms.map((arm, k) => ({ arm, label: arm.arm === null ? "other arms" : String(arm.arm), colour: "--arm" + k % ARMS }));
  const totals = x.map((_, k) => line.arms.reduce((sum, arm) => sum + arm.decisions[k], 0));
  const value = loss => data.scale === null ? 1 - loss
    : data.scale[0] + (data.scale[2] ? 1 - loss : loss) * (data.scale[1] - data.scale[0]);
  // the last stretch has only begun, and a share of few decisions jumps
  const whole = x.length > 2 && !isOver ? x.slice(0, -1) : x;
  const marks = [...document.querySelectorAll("#changes tr[data-at]")].map(row => Number(row.dataset.at));
  const over = (pick, format, more) => ({ kind: "time", across: "until", x: whole, format, marks, more: fewer(arms), ...more,
    series: busiest(arms, ({ arm }) => sum(arm.decisions)).map(each => ({ ...each, values: whole.map((_, k) => pick(each.arm, k)) })) });
  show("shares", over((arm, k) => totals[k] ? arm.decisions[k] / totals[k] : null, percent, { from0: true }));
  const lately = (values, k) => sum(values.slice(Math.max(0, k + 1 - TOGETHER), k + 1));
  const means = over((arm, k) => lately(arm.outcomes, k) ? value(lately(arm.losses, k) / lately(arm.outcomes, k)) : null, short);
  const movement = known?.estimates.movement;
  if (movement) means.series.push({ label: "level of all arms", colour: "--ink", dotted: true, values: levels(movement, totals).slice(0, whole.length) });
  show("means", means);
  show("waiting", { kind: "time", across: "until", x, format: short, marks, from0: true,
    series: [{ label: "outstanding", colour: "--accent", values: line.outstanding }] });
  const select = document.getElementById("delay-arm"), names = arms.map(each => each.label);
  if (select.options.length !== names.length + 1) {
    for (let k = select.options.length - 1; k < names.length; k++) select.add(new Option(names[k], k));
  }
  show("delays", delays(line, select.value));
}

function latest(rows) {
  const body = document.querySelector("#latest tbody");
  if (!rows.length || body.contains(document.activeElement)) return;
  const cell = (tag, className, content) => {
    const made = document.createElement(tag);
    made.className = className;
    made.append(content);
    return made;
  };
  body.replaceChildren(...rows.map(({ id, at, arm, so_far, propensity }) => {
    const row = document.createElement("tr"), link = document.createElement(id === null ? "span" : "a"), code = document.createElement("code");
    code.textContent = id;
    if (id === null) { link.className = "soft"; link.textContent = "erased"; }
    else { link.href = base + "/decisions?id=" + encodeURIComponent(id); link.append(code); }
    row.append(cell("th", "word", at), cell("td", "word", arm), cell("td", "word", so_far), cell("td", "word", link), cell("td", "", propensity));
    row.firstChild.scope = "row";
    return row;
  }));
}

const sum = counts => counts.reduce((all, count) => all + count, 0);

function facts(numbers) {
  for (const [name, value] of Object.entries(numbers)) text(document, name, value);
}

function problems(sentences) {
  const frame = document.getElementById("problems");
  if (sentences.join("\n") === [...frame.children].map(each => each.textContent).join("\n")) return;
  while (frame.children.length > sentences.length) frame.lastElementChild.remove();
  sentences.forEach((sentence, k) => {
    const line = frame.children[k] ?? frame.appendChild(Object.assign(document.createElement("p"), { className: "problem" }));
    line.textContent = sentence;
  });
}

function state() {
  charts();
  latest(data.latest);
  facts(data.facts);
  problems(data.problems);
  const shown = rows();
  for (const arm of data.arms) {
    const row = shown.get(arm.label);
    if (!row) continue;
    for (const field of ["percent", "decisions", "outcomes", ...(known ? [] : ["mean"])]) text(row, field, arm[field]);
  }
}

// What was known, and when. The scale is that of the last third: at first intervals reach from end to end.
function course(found) {
  const decisions = Object.fromEntries(known.estimates.arms.map(each => [each.arm, each.decisions]));
  const all = found.arms.map((each, k) => ({ ...each, colour: "--arm" + k % ARMS })), arms = busiest(all, each => decisions[each.arm]);
  const first = Math.floor(2 * found.decisions.length / 3);
  const ends = arms.filter(each => each.means.at(-1) !== null).flatMap(({ lows, highs }) => [...lows.slice(first), ...highs.slice(first)])
    .filter(each => each !== null);
  show("course", { kind: "log", across: "after decision", x: found.decisions, format: short,
    empty: known.estimates.outcomes !== "settled" ? "It is drawn where decisions count in their order."
      : known.estimates.used && !found.arms.length ? "It is kept for up to 24 arms." : "Too little is settled yet.",
    ...(ends.length ? { range: [Math.min(...ends), Math.max(...ends)] } : {}),
    more: fewer(all), series: arms.map(({ arm, means, lows, highs, colour }) => ({ label: String(arm), colour, values: means, low: lows, high: highs })) });
  text(document, "known-at", found.known_at === null ? "" : `${found.winner} wins from decision ${found.known_at.toLocaleString("en")} on.`);
}

const opposite = ({ value, low, high }) => ({ value: value === null ? null : 0 - value, low: 0 - high, high: 0 - low });
const signed = ({ value, low, high }) => `${value > 0 ? "+" : ""}${short(value)} (${short(low)} to ${short(high)})`;

// How much better the leader is, and what deciding was worth.
function compared({ leader, rival, differences, uplift }) {
  const is = (one, other) => differences.find(each => each.arm === one && each.other === other)?.difference, parts = [];
  const back = is(rival, leader), found = is(leader, rival) ?? (back && opposite(back));
  if (found && found.value !== null) parts.push(`${leader} compared with ${rival}: ${signed(found)}.`);
  if (uplift && uplift.low < uplift.high) parts.push(`The choices so far, compared with choosing uniformly: ${signed(uplift)} a decision.`);
  const most = data.timeline && [...data.arms].sort((a, b) => parseFloat(b.percent) - parseFloat(a.percent))[0];
  if (leader !== null && most && most.label !== String(leader))
    parts.push(`The learner now chooses ${most.label} most (${most.percent}): it goes by the newest outcomes, too.`);
  return parts.join(" ");
}

// The decision that holds up the verdict on all later ones.
function holding(decision) {
  if (!decision) return [];
  const item = document.createElement("li"), at = new Date(1000 * decision.at).toISOString().slice(0, 19).replace("T", " ");
  const id = decision.id === null ? "lost, since it was erased" : document.createElement("a");
  if (decision.id !== null) { id.textContent = decision.id; id.href = base + "/decisions?id=" + encodeURIComponent(decision.id); }
  item.append(`Decision ${short(decision.round)}, made ${at} UTC, has the id `, id, ".");
  return [item];
}

// The verdict, and what it means; a part that there is not takes no room.
function answer({ headline, meaning, progress, level, ...parts }) {
  text(document, "verdict", headline);
  text(document, "meaning", meaning);
  text(document, "level", level);
  document.getElementById("level").hidden = !level;
  const evidence = document.getElementById("evidence");
  evidence.hidden = progress === null;
  if (progress !== null) {
    text(evidence, "progress", String(progress));
    evidence.querySelector("svg").setAttribute("aria-label", `evidence: ${progress} % of what is needed`);
    evidence.querySelector(".had").setAttribute("width", progress + "%");
  }
  for (const name of ["candidates", "remaining", "named"]) {
    text(document, name, parts[name]);
    document.querySelector(`[data-show="${name}"]`).parentElement.hidden = !parts[name];
  }
}

function estimates() {
  if (!known) return;
  const found = known.estimates;
  answer(known.answer);
  text(document, "compared", compared(found));
  document.getElementById("notes").replaceChildren(...known.answer.notes.map(note => {
    const item = document.createElement("li");
    item.textContent = note;
    return item;
  }), ...holding(known.waits_for));
  const seen = found.arms.map(each => each.mean), left = Math.min(...seen.map(each => each.low)), right = Math.max(...seen.map(each => each.high));
  const place = value => right > left ? 100 * (value - left) / (right - left) : 50;
  const shown = rows(), out = new Set(known.answer.ruled_out);
  for (const [label, row] of shown) row.querySelector(".out").hidden = !out.has(label);
  for (const { arm, mean, outcomes } of found.arms) {
    const row = shown.get(String(arm));
    if (!row) continue;
    const numbers = { mean: mean.value, low: mean.low, high: mean.high, counted: outcomes };
    for (const [field, value] of Object.entries(numbers)) text(row, field, short(value));
    const range = row.querySelector(".range"), point = row.querySelector(".point");
    range.setAttribute("x", place(mean.low));
    range.setAttribute("width", place(mean.high) - place(mean.low));
    point.setAttribute("width", mean.value === null ? 0 : 0.8);
    if (mean.value !== null) point.setAttribute("x", place(mean.value) - 0.4);
  }
  course(known.course ?? { decisions: [], arms: [], known_at: null });
}

// Arms, status or limits have changed: take the parts of the page that show them from the page as it is now.
// A part that somebody is using is taken when they leave it.
let isOld = false;
async function renew() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  isOld = false;
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.getElementById(part.id);
    if (part.contains(document.activeElement)) isOld = true;
    else if (fresh) part.replaceChildren(...fresh.childNodes);
  }
  connected(true);
  state();
  estimates();
}

document.addEventListener("focusout", () => setTimeout(() => { if (isOld) renew(); }));

function say(words, isBad = true) {
  const place = document.getElementById("live");
  place.textContent = words;
  place.classList.toggle("bad", isBad);
}
const connected = is => say(is ? "live" : "the service does not answer; trying again", !is);

function follow() {
  const stream = new EventSource(live);
  // A connection can be lost without a word, as when a computer sleeps: then the signs of life stop.
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => { stream.close(); connected(false); reopen(); }, SILENCE);
  };
  heard();
  stream.onopen = () => { heard(); connected(true); };
  stream.onerror = () => {
    connected(false);
    if (stream.readyState !== EventSource.CLOSED) return;
    clearTimeout(silence);
    setTimeout(reopen, AGAIN);
  };
  for (const kind of ["state", "known", "facts", "problem"]) stream.addEventListener(kind, heard);
  stream.addEventListener("facts", message => facts(JSON.parse(message.data)));
  stream.addEventListener("state", message => {
    const before = JSON.stringify(data.form);
    data = JSON.parse(message.data);
    connected(true);
    state();
    if (JSON.stringify(data.form) !== before) renew();
  });
  stream.addEventListener("known", message => { known = JSON.parse(message.data); estimates(); charts(); });
  stream.addEventListener("problem", message => say(JSON.parse(message.data)));
}

// A browser gives up on a stream that is refused. Find out why: whoever is signed out is sent to the sign-in.
async function reopen() {
  let answer;
  try { answer = await fetch(live, { method: "HEAD" }); } catch { /* not there; the stream will tell */ }
  if (answer?.redirected) return signedOut();
  if (answer?.status === 503) { say("too many pages are open, or the service is busy; trying again"); setTimeout(reopen, AGAIN); }
  else follow();
}

function signedOut() {
  const link = document.createElement("a");
  link.href = "/sign-in?to=" + encodeURIComponent(location.pathname);
  link.textContent = "sign in again";
  say("you are signed out; ");
  document.getElementById("live").append(link);
}

if (location.search.includes("done=")) history.replaceState(null, "", location.pathname + location.hash);
state();
estimates();
follow();
document.getElementById("delay-arm").addEventListener("change", charts);
