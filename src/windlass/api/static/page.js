"use strict";
// Everything is shown as text (textContent): a job's name or output is never read as markup.

const $ = (id) => document.getElementById(id);
const KEY = "windlass-token";
const LINES_MAX = 5000;
const RELIST_MS = 30000;
const OVER = new Set(["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"]);
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

const jobs = new Map();
let selected = null;
let logStop = null;
let liveStop = null;
let skew = 0;

// The token comes in the fragment, which no browser sends to a server, and stays in this tab.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEY);
}

async function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY)}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
  if (answer.status === 401) {
    sessionStorage.removeItem(KEY);
    enter("That token does not hold any more.");
    throw new Error("unauthenticated");
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail || `the server answered ${answer.status}`);
  }
  const date = answer.headers.get("date");
  if (date) skew = Date.parse(date) - Date.now();
  return answer;
}

// Server-sent events by fetch, because EventSource cannot send a token.
async function events(path, take, signal) {
  const answer = await ask(path, { headers: { Accept: "text/event-stream" }, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += value;
    const blocks = held.split("\n\n");
    held = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) take(name, JSON.parse(data));
    }
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function link(state, text) {
  $("link").dataset.state = state;
  $("link-text").textContent = text;
}

function enter(why = "") {
  if (liveStop) liveStop.abort();
  select(null);
  $("main").hidden = true;
  $("enter").hidden = false;
  $("enter-error").textContent = why;
  $("counts").textContent = "";
  link("waiting", "not connected");
  $("token").focus();
}

async function list() {
  const answer = await ask("/api/v1/jobs?limit=500");
  const page = await answer.json();
  const known = new Set(page.items.map((job) => job.metadata.uid));
  for (const uid of jobs.keys()) if (!known.has(uid)) jobs.delete(uid);
  for (const job of page.items) jobs.set(job.metadata.uid, { ...jobs.get(job.metadata.uid), job });
  draw();
  return page.revision;
}

async function live() {
  $("enter").hidden = true;
  $("main").hidden = false;
  liveStop = new AbortController();
  const { signal } = liveStop;
  showFirstCommand();
  let wait = 500;
  while (!signal.aborted) {
    try {
      const revision = await list();
      link("live", "live");
      wait = 500;
      const relist = setInterval(() => list().catch(() => {}), RELIST_MS);
      try {
        await events(`/api/v1/events?follow=true&after=${revision}`, change, signal);
      } finally {
        clearInterval(relist);
      }
    } catch (error) {
      if (signal.aborted) return;
      link("lost", `${error.message}; trying again`);
    }
    await pause(wait);
    wait = Math.min(wait * 2, 8000);
  }
}

function change(name, data) {
  if (name === "reset") list().catch(() => {});
  if (name !== "job") return;
  const uid = data.metadata.uid;
  const before = jobs.get(uid);
  jobs.set(uid, { job: data, fresh: !before });
  draw();
  if (uid === selected) facts(data);
}

async function showFirstCommand() {
  try {
    const version = await (await ask("/api/v1/version")).json();
    if (version.runtimeKind === "process") $("first-command").textContent = "windlass run -- echo hello";
  } catch { /* the example stays */ }
}

const newestFirst = (a, b) => (a.job.metadata.uid < b.job.metadata.uid ? 1 : -1);

function draw() {
  const wanted = $("search").value.trim().toLowerCase();
  const onlyActive = $("active").checked;
  const all = [...jobs.values()].sort(newestFirst);
  const shown = all.filter(({ job }) => matches(job, wanted) && !(onlyActive && OVER.has(job.status.state)));
  const rows = $("rows");
  const kept = new Map([...rows.children].map((row) => [row.dataset.uid, row]));
  shown.forEach((item, index) => {
    const uid = item.job.metadata.uid;
    const row = kept.get(uid) || newRow(uid, item.fresh);
    kept.delete(uid);
    fill(row, item.job);
    if (rows.children[index] !== row) rows.insertBefore(row, rows.children[index] || null);
  });
  for (const row of kept.values()) row.remove();
  $("empty").hidden = all.length > 0;
  $("filters").hidden = all.length === 0;
  $("none").hidden = all.length === 0 || shown.length > 0;
  document.querySelector("table").hidden = shown.length === 0;
  counts(all);
}

function matches(job, wanted) {
  if (!wanted) return true;
  return [job.metadata.name, job.spec.image, job.status.node, commandLine(job.spec)]
    .some((text) => text && text.toLowerCase().includes(wanted));
}

// As it would be typed: a word that a shell would take apart stands in quotes.
function commandLine(spec) {
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  return (spec.command || []).map(quoted).join(" ");
}

function newRow(uid, isFresh) {
  const row = document.createElement("tr");
  row.dataset.uid = uid;
  row.tabIndex = 0;
  if (isFresh) row.className = "fresh";
  for (let i = 0; i < 5; i++) row.append(document.createElement("td"));
  row.children[1].append(Object.assign(document.createElement("span"), { className: "pill" }));
  row.children[2].className = "what wide";
  row.children[3].className = "wide";
  row.children[4].className = "number";
  row.addEventListener("click", () => select(uid));
  row.addEventListener("keydown", (event) => { if (event.key === "Enter") select(uid); });
  return row;
}

function fill(row, job) {
  const { state } = job.status;
  write(row.children[0], job.metadata.name);
  pill(row.children[1].firstChild, job);
  write(row.children[2], [job.spec.image, commandLine(job.spec)].filter(Boolean).join(" "));
  write(row.children[3], job.status.node || (state === "PENDING" ? "waiting" : "—"));
  write(row.children[4], elapsed(job));
  row.setAttribute("aria-selected", String(row.dataset.uid === selected));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function pill(element, job) {
  const { state } = job.status;
  element.className = `pill ${state}`;
  write(element, job.spec.suspend && state === "PENDING" ? "suspended" : state.toLowerCase().replace("_", " "));
}

function elapsed(job) {
  const { startedAt, ranSeconds, runStartedAt } = job.status;
  if (!startedAt) return "";
  const live = runStartedAt ? Math.max(0, Date.now() + skew - Date.parse(runStartedAt)) : 0;
  return span(1000 * (ranSeconds || 0) + live);
}

function span(ms) {
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function counts(all) {
  const groups = { waiting: 0, running: 0, done: 0, failed: 0 };
  for (const { job } of all) {
    const { state } = job.status;
    if (state === "RUNNING") groups.running++;
    else if (state === "SUCCEEDED") groups.done++;
    else if (OVER.has(state)) groups.failed++;
    else groups.waiting++;
  }
  const parts = Object.entries(groups).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`);
  write($("counts"), parts.join(" · "));
}

function select(uid) {
  if (logStop) logStop.abort();
  logStop = null;
  selected = uid;
  $("detail").hidden = !uid;
  $("main").classList.toggle("split", Boolean(uid));
  for (const row of $("rows").children) row.setAttribute("aria-selected", String(row.dataset.uid === uid));
  if (!uid) return;
  facts(jobs.get(uid).job);
  follow(uid);
}

function facts(job) {
  const { status, spec } = job;
  write($("detail-name"), job.metadata.name);
  pill($("detail-pill"), job);
  const table = {
    Waiting: (status.waiting || []).join("\n"),
    Reason: status.reason,
    Message: status.message,
    "Exit code": status.exitCode === null ? "" : String(status.exitCode),
    Image: spec.image,
    Command: commandLine(spec),
    Asks: `${spec.resources.cpu} cpu, ${spec.resources.memory}` + (spec.resources.gpu ? `, ${spec.resources.gpu} gpu` : ""),
    Node: status.node,
    Attempt: status.attempt > 1 ? String(status.attempt) : "",
    Submitted: when(job.metadata.creationTimestamp),
    Started: when(status.startedAt),
    Finished: when(status.finishedAt),
    Id: job.metadata.uid,
  };
  $("facts").replaceChildren(...Object.entries(table).filter(([, value]) => value).flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }),
    Object.assign(document.createElement("dd"), { textContent: value }),
  ]));
}

const when = (text) => (text ? new Date(text).toLocaleString() : "");

async function follow(uid) {
  const stop = new AbortController();
  logStop = stop;
  const log = $("log");
  log.replaceChildren();
  write($("log-state"), "");
  let open = {};
  let isOver = false;
  const take = (name, data) => {
    if (stop.signal.aborted) return;
    if (name === "line") {
      open = addLine(log, data, open);
    } else if (name === "end") {
      isOver = true;
      write($("log-state"), log.childElementCount ? "complete" : "the job wrote nothing");
    } else if (name === "error") {
      note(log, data.detail);
    }
  };
  while (!stop.signal.aborted && !isOver) {
    log.replaceChildren();
    open = {};
    write($("log-state"), "following");
    try {
      await events(`/api/v1/jobs/${uid}/logs?follow=true&tail=${LINES_MAX}`, take, stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) note(log, error.message);
    }
    if (!isOver) await pause(1500);
  }
}

// A partial entry is continued by the next of its stream.
function addLine(log, { stream, text, partial }, open) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const plain = text.replace(ESCAPES, "").replace(/^.*\r(?!$)/, "");
  if (open[stream]) {
    open[stream].textContent += plain;
  } else {
    const line = document.createElement("div");
    line.className = stream;
    line.textContent = plain || " ";
    log.append(line);
    open[stream] = line;
  }
  if (!partial) open[stream] = null;
  while (log.childElementCount > LINES_MAX) log.firstChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
  return open;
}

function note(log, text) {
  log.append(Object.assign(document.createElement("div"), { className: "note", textContent: text }));
}

$("enter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("token").value.trim());
  $("token").value = "";
  live();
});
$("search").addEventListener("input", draw);
$("active").addEventListener("change", draw);
$("close").addEventListener("click", () => select(null));
$("to-end").addEventListener("click", () => { $("log").scrollTop = $("log").scrollHeight; });
$("log").addEventListener("scroll", () => {
  const log = $("log");
  $("to-end").hidden = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") select(null); });
setInterval(() => { if (!$("main").hidden && !document.hidden) draw(); }, 1000);

if (takeToken()) live();
else enter();
