// Keeps a page as it would be if it were loaded again: what changes is fetched from the server and
// put in its place. Focus, typed text, scrolling and opened parts stay. Without it nothing is lost.
"use strict";

const SHORTEST_MS = 150; // Between two updates.
const QUIET_MS = 5000; // Between looks at what no event tells of: that a process is gone.
const LONGEST_MS = 30000; // Between attempts to reach a server that is gone.
const main = document.getElementById("main");
const link = document.getElementById("link");

// Times in the reader's own zone.

function setTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.title = time.textContent;
    const today = at.toDateString() === new Date().toDateString();
    time.textContent = today ? at.toLocaleTimeString() : at.toLocaleString();
  }
}

function setSeconds() {
  for (const one of document.querySelectorAll("[data-since]")) {
    const seconds = Math.max(Math.floor(Date.now() / 1000 - one.dataset.since), 0);
    const parts = seconds < 60 ? [seconds, "s"]
      : seconds < 3600 ? [Math.floor(seconds / 60), "min", seconds % 60, "s"]
      : [Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min"];
    one.textContent = parts.join(" ");
  }
}

// The bars of earlier steps are as long as the longest one says now.
function setBars() {
  const longest = document.getElementById("steps")?.dataset.longest;
  for (const bar of document.querySelectorAll("svg.bar"))
    bar.setAttribute("viewBox", `0 0 ${longest} 1`);
}

// One element becomes like another, and stays itself.

function merge(old, now) {
  if (old.isEqualNode(now) || isKept(old, now)) return;
  for (const { name } of [...old.attributes])
    if (!now.hasAttribute(name) && !isOwn(old, name)) old.removeAttribute(name);
  for (const { name, value } of now.attributes)
    if (old.getAttribute(name) !== value && !isOwn(old, name)) old.setAttribute(name, value);
  if (!old.matches(".loaded[data-loaded]")) mergeInside(old, now);
}

// A form that somebody may be filling in stays while it asks the same.
function isKept(old, now) {
  return old.matches("form[data-keep]") && old.dataset.keep === now.dataset.keep;
}

// What the reader or this script has set.
function isOwn(element, name) {
  return name === "data-loaded" || (element.localName === "details" && name === "open");
}

function mergeInside(old, now) {
  const named = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
  const wanted = new Set([...now.children].map((one) => one.id));
  const isPart = now.hasAttribute && now.hasAttribute("data-partial");
  let at = old.firstChild;
  for (const next of [...now.childNodes]) {
    let found = next.id ? named.get(next.id) : at;
    if (found && (found.nodeName !== next.nodeName || (!next.id && found.id))) found = null;
    if (isPart) {
      if (found && next.id) merge(found, next);
      else if (next.id) old.append(next);
      continue;
    }
    if (!found) {
      old.insertBefore(next, at);
      continue;
    }
    // Whoever is moved loses the focus: what is in its way goes instead, unless it is needed.
    while (at && at !== found && !(at.id && wanted.has(at.id))) at = passed(at);
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    if (found.nodeType === Node.ELEMENT_NODE) merge(found, next);
    else if (found.nodeValue !== next.nodeValue) found.nodeValue = next.nodeValue;
  }
  if (isPart) return;
  while (at) at = passed(at);
}

// What comes behind a node, which goes unless it stays.
function passed(node) {
  const next = node.nextSibling;
  // What the server has said to what was sent is on no other page.
  if (node.nodeType !== Node.ELEMENT_NODE || !node.matches("[data-stay]")) node.remove();
  return next;
}

// What was typed for a question that is over stays until the reader leaves.
function setAside(page) {
  const form = main.querySelector("#question form[data-typed]");
  if (!form || page.querySelector(`form[data-keep="${CSS.escape(form.dataset.keep)}"]`)) return;
  const section = form.closest("section");
  section.id = "over";
  section.dataset.stay = "";
  section.removeAttribute("aria-labelledby");
  section.setAttribute("aria-label", "No longer open");
  const heading = section.querySelector("h2");
  heading.removeAttribute("id");
  heading.textContent = "No longer open";
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  const note = document.createElement("p");
  note.className = "alert";
  note.setAttribute("role", "alert");
  const answer = page.querySelector(`[data-question="${CSS.escape(form.dataset.keep)}"]`);
  note.textContent = (answer ? `Answered meanwhile: ${answer.textContent.trim()}. ` : "Too late. ")
    + "What you have typed stays here until you leave the page.";
  form.prepend(note);
}

// What is read stays where it is, whatever comes above it.
function staying(change) {
  const seen = [document.activeElement, ...main.querySelectorAll("[id]")];
  const anchor = scrollY > 0 && seen.find((one) => {
    const { top, height } = one.getBoundingClientRect();
    return main.contains(one) && height > 0 && top >= 0 && top < innerHeight;
  });
  const top = anchor && anchor.getBoundingClientRect().top;
  change();
  if (anchor && anchor.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
}

// Pages of this server.

class Gone extends Error {}

async function pageAt(address) {
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  if (answer.redirected && new URL(answer.url).pathname === "/login") {
    const to = encodeURIComponent(location.pathname + location.search);
    throw new Gone("You are signed out. ", { cause: ["Sign in", "/login?to=" + to] });
  }
  if (answer.status === 204) return null;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok) throw new Gone(page.querySelector("main p")?.textContent ?? "It is gone.");
  setTimes(page);
  return page;
}

function tell(words, more) {
  link.hidden = !words;
  link.replaceChildren(words);
  if (!more) return;
  const anchor = document.createElement("a");
  [anchor.textContent, anchor.href] = more;
  // What was typed here is lost elsewhere.
  if (main.querySelector("form[data-typed]")) anchor.target = "_blank";
  link.append(anchor);
}

// Texts that are fetched when somebody opens their part.

async function load(details) {
  const place = details.querySelector(".loaded");
  const version = details.dataset.version ?? "";
  if (!details.open || !place || place.dataset.loaded === version) return;
  place.dataset.loaded = version;
  try {
    const page = await pageAt(details.dataset.load);
    staying(() => place.replaceChildren(...page.querySelector(".texts").childNodes));
  } catch {
    // The link is there, and the next opening tries again.
    delete place.dataset.loaded;
  }
}

function loadOpened(root) {
  for (const details of root.querySelectorAll("details[data-load][open]")) load(details);
}

// The stream of what happens, and the page that follows it.

let source = null;
let cursor = main?.dataset.from;
let timer = 0;
let isBusy = false;
let isLate = false;
let took = 0;
let waits = 1000;
let isLost = false;

function follow() {
  if (source || !main.dataset.stream || document.hidden) return;
  source = new EventSource(main.dataset.stream + "?from=" + encodeURIComponent(cursor));
  source.onopen = () => {
    waits = 1000;
    if (isLost) update();
  };
  source.onmessage = (event) => {
    cursor = event.lastEventId;
    soon();
  };
  source.addEventListener("end", () => {
    leave();
    delete main.dataset.stream;
    soon();
  });
  source.addEventListener("fault", (event) => tell(JSON.parse(event.data).message));
  source.onerror = () => {
    if (!isLost) tell("The connection to the server is lost. Trying again …");
    isLost = true;
    if (!source || source.readyState !== EventSource.CLOSED) return;
    // Refused: browsers come back by themselves only to a server that they did not reach.
    leave();
    setTimeout(() => update().then(follow), waits);
    waits = Math.min(2 * waits, LONGEST_MS);
  };
}

function leave() {
  source?.close();
  source = null;
}

// So much happens at times that each update would be late: the next one waits twice as long as the
// last one took.
function soon() {
  if (isBusy) isLate = true;
  else if (!timer) timer = setTimeout(update, Math.max(SHORTEST_MS, 2 * took));
}

async function update(isQuiet) {
  if (isBusy || document.hidden) return;
  clearTimeout(timer);
  timer = 0;
  isBusy = true;
  isLate = false;
  const began = performance.now();
  try {
    const page = await pageAt(addressOfChanges(isQuiet));
    if (page) {
      staying(() => {
        setAside(page);
        merge(main, page.getElementById("main"));
        setSeconds();
        setBars();
      });
      document.title = page.title;
      loadOpened(main);
    }
    if (isLost && (!source || source.readyState === EventSource.OPEN)) {
      isLost = false;
      tell("");
    }
  } catch (error) {
    isLost = true;
    if (error instanceof Gone) tell(error.message, error.cause);
    else tell("The connection to the server is lost. Trying again …");
  }
  took = performance.now() - began;
  isBusy = false;
  if (isLate) soon();
}

function addressOfChanges(isQuiet) {
  // Behind a form that was refused the address is that of the form.
  const address = new URL(main.dataset.page ?? location.href, location.href);
  address.hash = "";
  if (main.dataset.seq) address.searchParams.set("since", main.dataset.seq);
  if (isQuiet && main.dataset.status) address.searchParams.set("known", main.dataset.status);
  return address;
}

if (main) {
  document.documentElement.className = "follows";
  setTimes(document);
  setSeconds();
  loadOpened(document);
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details[data-load]")) load(event.target);
  }, true);
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-keep]");
    if (form) form.dataset.typed = "";
  });
  setInterval(setSeconds, 1000);
  if (main.dataset.stream) {
    follow();
    setInterval(() => main.dataset.stream && update(true), QUIET_MS);
    // A browser has few connections to one server: pages that nobody sees take none.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) leave();
      else update().then(follow);
    });
  }
}
