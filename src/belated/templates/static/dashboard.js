"use strict";
// Draws the charts of an experiment, fills their tables, and follows the experiment while the page is open.

const here = document.getElementById("winner").dataset.name;
const base = "/experiments/" + encodeURIComponent(here);
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = value => value === null || !isFinite(value) ? "–" : Math.abs(value) >= 100 || value === Math.round(value)
  ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
const percent = value => value === null ? "–" : (100 * value).toFixed(value >= 0.1 || value === 0 ? 0 : 1) + " %";
const shown = new Map();
const MOST_POINTS = 60;
let estimated = false;
const two = number => String(number).padStart(2, "0");
const clock = (at, seconds) => two(at.getHours()) + ":" + two(at.getMinutes()) + (seconds ? ":" + two(at.getSeconds()) : "");
const day = at => at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate());

// A chart of sixty points is easier to read than one of 240: neighbours are put together.
function grouped(line) {
  const size = Math.max(1, Math.ceil(line.outstanding.length / MOST_POINTS));
  const sums = counts => counts.reduce((all, count, k) => { if (k % size) all[all.length - 1] += count; else all.push(count); return all; }, []);
  return { ...line, seconds: size * line.seconds,
    outstanding: line.outstanding.filter((_, k) => k % size === size - 1 || k === line.outstanding.length - 1),
    arms: line.arms.map(arm => ({ ...arm, decisions: sums(arm.decisions), outcomes: sums(arm.outcomes), losses: sums(arm.losses) })) };
}

// Series of what is drawn: {x, series: [{label, colour, values}], format}, from the data of the page.
function pictures(data) {
  const line = grouped(data.timeline), times = line.outstanding.map((_, k) => line.begin + (k + 1) * line.seconds);
  const named = line.arms.map((arm, k) => ({ label: arm.arm === null ? "other arms" : String(arm.arm), colour: "--arm" + k % 8, arm }));
  const totals = times.map((_, k) => line.arms.reduce((sum, arm) => sum + arm.decisions[k], 0));
  const value = loss => data.scale === null ? 1 - loss
    : data.scale[0] + (data.scale[2] ? 1 - loss : loss) * (data.scale[1] - data.scale[0]);
  const over = (pick, format) => ({ x: times, time: true, format,
    series: named.map(each => ({ ...each, values: times.map((_, k) => pick(each.arm, k)) })) });
  const kinds = [["good", true, "--arm2"], ["others", false, "--arm1"]];
  const bounds = [...line.delay_bounds, Infinity];
  return {
    shares: over((arm, k) => totals[k] ? arm.decisions[k] / totals[k] : null, percent),
    means: over((arm, k) => arm.outcomes[k] ? value(arm.losses[k] / arm.outcomes[k]) : null, short),
    waiting: { x: times, time: true, format: short,
      series: [{ label: "outstanding", colour: "--accent", values: line.outstanding }] },
    delays: { x: bounds.map((_, k) => k), labels: bounds.map(delay), format: short, bars: true,
      series: kinds.map(([label, good, colour]) => ({ label, colour, values: bounds.map((_, k) =>
        line.delays.filter(each => each.good === good).reduce((sum, each) => sum + each.counts[k], 0)) })) },
  };
}

function delay(seconds) {
  if (seconds === Infinity) return "longer";
  for (const [unit, word] of [[86400, " d"], [3600, " h"], [60, " min"], [1, " s"]])
    if (seconds >= unit) return "≤ " + seconds / unit + word;
  return "≤ " + seconds + " s";
}

function dates(chart, at) {
  const span = chart.scales.x.max - chart.scales.x.min;
  return at.map((t, k) => { const date = new Date(1000 * t);
    return span > 3 * 86400 ? day(date) : (k === 0 ? day(date) + " " : "") + clock(date, span < 600); });
}

function draw(id, picture) {
  const frame = document.querySelector(`[data-chart="${id}"]`);
  const columns = [picture.x, ...picture.series.map(each => each.values)];
  const old = shown.get(id);
  if (old && old.series.length === columns.length) { old.setData(columns); return; }
  if (old) old.destroy();
  frame.textContent = "";
  if (picture.x.length < (picture.bars ? 1 : 2)) { frame.textContent = "There is too little to draw yet."; return; }
  const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 } };
  shown.set(id, new uPlot({
    width: frame.clientWidth - 20, height: 240,
    scales: { x: { time: Boolean(picture.time), ...(picture.bars ? { range: [-0.6, picture.x.length - 0.4] } : {}) } },
    cursor: { y: false }, legend: { live: true },
    axes: [{ ...axis, ...(picture.labels ? { values: (_, at) => at.map(k => picture.labels[k] ?? ""), splits: () => picture.x } : { values: dates }) },
           { ...axis, size: 64, values: (_, at) => at.map(picture.format) }],
    series: [{ label: picture.labels ? "delay" : "until",
        value: picture.labels ? (_, k) => picture.labels[k] ?? "–" : (_, t) => t === null ? "–" : day(new Date(1000 * t)) + " " + clock(new Date(1000 * t), true) },
      ...picture.series.map((each, k) => ({ label: each.label, stroke: ink(each.colour), width: 2, spanGaps: false,
        value: (_, v) => v === null || v === undefined ? "–" : picture.format(v), points: { show: false },
        ...(picture.bars ? { fill: ink(each.colour), paths: uPlot.paths.bars({ size: [0.36, 60], align: k ? 1 : -1 }) } : {}) }))],
  }, columns, frame));
}

function tabulate(id, picture) {
  const table = document.querySelector(`[data-table="${id}"]`);
  const cell = (tag, text, scope) => { const made = document.createElement(tag); made.textContent = text; if (scope) made.scope = scope; return made; };
  const row = (...cells) => { const made = document.createElement("tr"); made.append(...cells); return made; };
  const head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(row(cell("th", picture.labels ? "delay" : "until", "col"), ...picture.series.map(each => cell("th", each.label, "col"))));
  const step = Math.max(1, Math.ceil(picture.x.length / 24));
  for (let k = picture.x.length - 1; k >= 0; k -= step) {
    const name = picture.labels ? picture.labels[picture.x.length - 1 - k] : new Date(1000 * picture.x[k]).toISOString().slice(0, 19).replace("T", " ");
    const at = picture.labels ? picture.x.length - 1 - k : k;
    body.append(row(cell("th", name, "row"), ...picture.series.map(each => cell("td", each.values[at] === null ? "–" : picture.format(each.values[at])))));
  }
  table.replaceChildren(head, body);
}

function show(data) {
  for (const [id, picture] of Object.entries(pictures(data))) { draw(id, picture); tabulate(id, picture); }
  for (const name of ["rounds", "outstanding"])
    document.querySelector(`[data-show="${name}"]`).textContent = data[name].toLocaleString("en");
  for (const arm of data.arms) {
    const row = [...document.querySelectorAll("#arms tr")].find(each => each.dataset.arm === arm.label);
    if (row === undefined) { location.reload(); return; }
    for (const field of ["percent", "decisions", "outcomes", ...(estimated ? [] : ["mean"])]) row.querySelector(`[data-show="${field}"]`).textContent = arm[field];
  }
}

let asked = 0;
async function estimate() {
  const mine = ++asked;
  try {
    const answer = await fetch(base + "/estimates");
    if (!answer.ok || mine !== asked) return;
    const found = await answer.json();
    estimated = true;
    document.querySelector('[data-show="verdict"]').textContent = found.verdict;
    for (const each of found.arms) {
      const row = [...document.querySelectorAll("#arms tr")].find(other => other.dataset.arm === String(each.arm));
      if (!row) continue;
      row.querySelector('[data-show="mean"]').textContent = short(each.mean.value);
      row.querySelector('[data-show="low"]').textContent = short(each.mean.low);
      row.querySelector('[data-show="high"]').textContent = short(each.mean.high);
    }
  } catch (error) { /* the service is away: the line below the title says so */ }
}

function follow() {
  const live = document.getElementById("live"), stream = new EventSource(base + "/live");
  let last = 0;
  stream.onopen = () => { live.textContent = "live"; };
  stream.onerror = () => { live.textContent = "the service does not answer; trying again"; };
  stream.onmessage = message => {
    show(JSON.parse(message.data));
    if (Date.now() - last > 10000) { last = Date.now(); estimate(); }
  };
}

show(JSON.parse(document.getElementById("data").textContent));
estimate();
follow();
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const chart of shown.values()) chart.setSize({ width: chart.root.parentElement.clientWidth - 20, height: 240 });
});
