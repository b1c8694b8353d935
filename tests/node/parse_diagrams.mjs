// Reads a JSON list of Mermaid diagrams, and prints for each what the real Mermaid takes it for.

import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>");
globalThis.window = window;
globalThis.document = window.document;

const { default: mermaid } = await import("mermaid");
const { marked } = await import("marked");
mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });

// Mermaid keeps `#34;` in a form of its own until it draws; this is how it ends that.
function decoded(text) {
  return text.replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");
}

// The text that a reader sees, one line for each `<br/>`. Mermaid decodes a label when it draws it,
// and the whole picture once more when it is done.
function shown(label) {
  const place = window.document.createElement("div");
  place.innerHTML = decoded(label ?? "");
  place.innerHTML = decoded(place.innerHTML);
  for (const end of place.querySelectorAll("br")) end.replaceWith("\n");
  return place.textContent;
}

// Labels are drawn as Markdown; these are the kinds of what they consist of.
function markdown(label) {
  const kinds = (tokens) => tokens.flatMap((token) => [token.type, ...kinds(token.tokens ?? [])]);
  return [...new Set(kinds(marked.lexer(label ?? "")))].sort();
}

async function parsed(text) {
  try {
    const { type, db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    const { nodes, edges } = db.getData();
    return {
      type,
      direction: db.getDirection(),
      nodes: nodes.map((node) => ({
        id: node.id,
        shape: node.shape,
        title: shown(node.label),
        texts: (node.description ?? []).map(shown),
        classes: node.cssClasses.split(" ").filter(Boolean),
        styles: node.cssCompiledStyles ?? [],
      })),
      edges: edges.map((edge) => ({
        source: edge.start,
        target: edge.end,
        text: shown(edge.label),
        markdown: markdown(edge.label),
      })),
    };
  } catch (error) {
    return { error: String(error) };
  }
}

const results = [];
// One after another: Mermaid has one parser, which keeps what it read last.
for (const text of JSON.parse(readFileSync(0, "utf-8"))) results.push(await parsed(text));
process.stdout.write(JSON.stringify(results));
