// Opens YAML files in the real yaml-language-server, as an editor does, and prints what it says.
//
// Reads {documents: [{uri, text, completions: [[line, character]], hovers: [[line, character]]}]},
// with lines and characters from 0. A text names its schema on its first line.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import rpc from "vscode-jsonrpc/node.js";

const SERVER = "node_modules/yaml-language-server/bin/yaml-language-server";
const here = dirname(fileURLToPath(import.meta.url));
const { documents } = JSON.parse(readFileSync(0, "utf8"));

const server = spawn(process.execPath, [join(here, SERVER), "--stdio"], { stdio: "pipe" });
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(server.stdout),
  new rpc.StreamMessageWriter(server.stdin),
);

const settings = { validate: true, hover: true, completion: true, schemaStore: { enable: false } };
connection.onRequest("workspace/configuration", ({ items }) =>
  items.map(({ section }) => (section === "yaml" ? settings : {})),
);
connection.onRequest("client/registerCapability", () => null);

const waiting = new Map();
connection.onNotification("textDocument/publishDiagnostics", ({ uri, diagnostics }) => {
  waiting.get(uri)?.(diagnostics);
});
connection.listen();

await connection.sendRequest("initialize", {
  processId: process.pid,
  rootUri: null,
  capabilities: {
    workspace: { configuration: true },
    textDocument: {
      completion: { completionItem: { snippetSupport: true, documentationFormat: ["markdown"] } },
      hover: { contentFormat: ["markdown"] },
    },
  },
});
await connection.sendNotification("initialized", {});

function asked(method, uri, places = []) {
  const ask = ([line, character]) =>
    connection.sendRequest(method, { textDocument: { uri }, position: { line, character } });
  return Promise.all(places.map(ask));
}

async function opened({ uri, text, completions, hovers }) {
  const published = new Promise((resolve) => waiting.set(uri, resolve));
  await connection.sendNotification("textDocument/didOpen", {
    textDocument: { uri, languageId: "yaml", version: 1, text },
  });
  const diagnostics = await published;
  return {
    diagnostics: diagnostics.map(({ message, range }) => ({ message, line: range.start.line })),
    completions: (await asked("textDocument/completion", uri, completions)).map((list) =>
      list.items.map(({ label, documentation }) => ({
        label,
        documentation: documentation?.value ?? documentation ?? "",
      })),
    ),
    hovers: (await asked("textDocument/hover", uri, hovers)).map(
      (hover) => hover?.contents?.value ?? "",
    ),
  };
}

const said = [];
for (const document of documents) said.push(await opened(document));
console.log(JSON.stringify(said));
server.kill();
connection.dispose();
