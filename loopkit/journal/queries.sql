-- Every statement that the SQLite journal executes, by name.
-- `tables` holds several; no statement contains a semicolon of its own.

-- name: tables
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    machine TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at REAL NOT NULL,
    owner TEXT,
    due_at REAL,
    -- A JSON list of labels: the run was submitted, and any process with these labels drives it.
    needs TEXT,
    format INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_owned ON runs (owner) WHERE owner IS NOT NULL;
-- With a rowid: large rows were twice as slow without one.
CREATE TABLE records (
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at REAL NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT;
-- SQLite gives the number of a removed row to the next one where it was the last.
CREATE TABLE removals (
    id INTEGER PRIMARY KEY,
    newest INTEGER NOT NULL
) STRICT;
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at REAL NOT NULL,
    consumed_at_seq INTEGER,
    UNIQUE (run_id, message_id)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (run_id) WHERE consumed_at_seq IS NULL;
CREATE TABLE definitions (
    digest TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT

-- name: insert_run
INSERT INTO runs (run, machine, definition, needs, created_at, owner, format)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run) DO NOTHING

-- name: run
SELECT id, owner FROM runs WHERE run = :run

-- name: head
SELECT seq, epoch, at, type FROM records WHERE run_id = ? ORDER BY seq DESC LIMIT 1

-- name: newest_claim
SELECT ifnull(owner, ''), at, data FROM records JOIN runs ON runs.id = run_id
WHERE run_id = ? AND type = ? ORDER BY seq DESC LIMIT 1

-- name: append
-- A number is given once, also where the newest records were removed.
INSERT INTO records (rowid, run_id, seq, epoch, at, type, data) VALUES (1 + max(
    (SELECT ifnull(max(rowid), 0) FROM records), (SELECT ifnull(max(newest), 0) FROM removals)
), ?, ?, ?, ?, ?, ?)

-- name: whole
-- Of a run, the number of a record that is missing, and its last record.
SELECT (
    SELECT place FROM (
        SELECT seq, row_number() OVER (ORDER BY seq) AS place FROM records WHERE run_id = runs.id
    )
    WHERE seq <> place LIMIT 1
), head.seq
FROM runs LEFT JOIN records AS head ON run_id = runs.id
AND seq = (SELECT max(seq) FROM records WHERE run_id = runs.id) WHERE run = :run

-- name: read
SELECT seq, epoch, at, type, data FROM records
WHERE run_id = (SELECT id FROM runs WHERE run = :run) AND seq > :after AND seq <= :until
ORDER BY seq

-- name: written
SELECT records.rowid, run, seq, epoch, at, type, data
FROM records JOIN runs ON runs.id = run_id WHERE records.rowid > :row ORDER BY records.rowid

-- name: written_by_family
-- '0' comes right behind '/'. The rows are chosen by their numbers alone, without their data.
SELECT records.rowid, run, seq, epoch, at, type, data
FROM records JOIN runs ON runs.id = run_id
WHERE records.rowid IN (
    SELECT records.rowid FROM records
    WHERE run_id IN (
        SELECT id FROM runs WHERE run = :family OR run > :family || '/' AND run < :family || '0'
    )
    AND records.rowid > :row ORDER BY records.rowid LIMIT :limit
)
ORDER BY records.rowid

-- name: newest
SELECT max(
    (SELECT ifnull(max(rowid), 0) FROM records), (SELECT ifnull(max(newest), 0) FROM removals)
)

-- name: note_removal
INSERT OR REPLACE INTO removals (id, newest) VALUES (1, ?)

-- name: own
-- A submitted run whose owner was killed is due at once.
UPDATE runs SET owner = ?, format = max(format, ?), due_at = iif(
    owner IS NOT NULL AND needs IS NOT NULL, ifnull(due_at, 0), due_at
) WHERE id = ? RETURNING due_at, format

-- name: is_submitted
SELECT id FROM runs WHERE run = :run AND needs IS NOT NULL

-- name: mailed
SELECT DISTINCT run FROM runs JOIN inbox ON run_id = runs.id
WHERE owner = :owner AND consumed_at_seq IS NULL

-- name: disown
UPDATE runs SET owner = NULL, due_at = iif(needs IS NOT NULL AND EXISTS (
    SELECT id FROM inbox WHERE run_id = runs.id AND consumed_at_seq IS NULL
), :now, max(:due, :now)) WHERE id = :id AND owner = :owner

-- name: set_due
UPDATE runs SET due_at = ? WHERE id = ?

-- name: hasten
UPDATE runs SET due_at = min(ifnull(due_at, :now), :now) WHERE id = :id AND needs IS NOT NULL

-- name: submit
UPDATE runs SET needs = :needs, due_at = :now WHERE run = :run RETURNING id

-- name: due
-- A child is due in its root.
SELECT root.run, min(member.due_at) FROM runs AS member
JOIN runs AS root ON root.run = substr(member.run, 1, instr(member.run || '/', '/') - 1)
WHERE member.id IN (
    SELECT id FROM runs WHERE due_at <= :now
    UNION ALL SELECT id FROM runs WHERE owner IS NOT NULL AND needs IS NOT NULL
) AND (:every OR root.needs IS NOT NULL) AND root.format <= :format AND NOT EXISTS (
    SELECT value FROM json_each(root.needs)
    WHERE value NOT IN (SELECT value FROM json_each(:labels))
)
AND (root.owner IS NULL OR root.owner NOT IN (SELECT value FROM json_each(:alive)))
GROUP BY root.id ORDER BY min(member.due_at) LIMIT :limit

-- name: owners
SELECT DISTINCT owner FROM runs WHERE owner IS NOT NULL

-- name: standings
SELECT last, is_driven, is_submitted AND NOT is_driven AND coalesce(owner, since) IS NOT NULL AS is_due,
    count(*), min(since)
FROM (
    SELECT due.since, owner, needs IS NOT NULL AS is_submitted,
        ifnull(owner IN (SELECT value FROM json_each(:alive)), 0) AS is_driven,
        ifnull((
            SELECT type FROM records WHERE run_id = runs.id AND type <> 'claimed'
            ORDER BY seq DESC LIMIT 1
        ), '') AS last
    FROM runs LEFT JOIN (
        SELECT substr(run, 1, instr(run || '/', '/') - 1) AS root, min(due_at) AS since FROM runs
        WHERE due_at <= :now GROUP BY root
    ) AS due ON due.root = run
    WHERE instr(run, '/') = 0
)
GROUP BY last, is_driven, is_due

-- name: runs
SELECT runs.id, run, machine, definition, created_at, ifnull(head.at, created_at),
    ifnull(head.seq, 0), ifnull(owner IN (SELECT value FROM json_each(:alive)), 0)
FROM runs LEFT JOIN records AS head ON run_id = runs.id
AND seq = (SELECT max(seq) FROM records WHERE run_id = runs.id)
WHERE (:machine IS NULL OR machine = :machine) AND (:run IS NULL OR run = :run)
AND (:children OR :run IS NOT NULL OR ifnull(instr(run, '/'), 0) = 0)
AND (:before IS NULL OR runs.id < (SELECT id FROM runs WHERE run = :before))
AND (:below IS NULL OR runs.id < :below)
AND (head.type IS NULL OR head.type NOT IN (SELECT value FROM json_each(:skipping)))
ORDER BY runs.id DESC LIMIT :limit

-- name: histories
SELECT run, seq, epoch, at, type, data FROM records JOIN runs ON runs.id = run_id
WHERE run IN (SELECT value FROM json_each(:runs)) ORDER BY run_id, seq

-- name: named
SELECT run FROM runs
WHERE substr(run, 1, length(:beginning)) = :beginning
AND instr(substr(run, length(:beginning) + 1), '/') = 0
ORDER BY id DESC LIMIT :limit

-- name: family
-- '0' comes right behind '/'.
SELECT run FROM runs WHERE run = :run OR run > :run || '/' AND run < :run || '0'

-- name: remove
DELETE FROM runs WHERE id = ?

-- name: remove_definitions
-- A run names the one that it began with, its scenario, and those with which it was repaired.
DELETE FROM definitions WHERE digest NOT IN (
    SELECT definition FROM runs
    UNION SELECT json_extract(data, '$.script') FROM records
    WHERE type = 'started' AND json_valid(data) AND json_extract(data, '$.script') IS NOT NULL
    UNION SELECT json_extract(data, '$.definition') FROM records
    WHERE type = 'repaired' AND json_valid(data) AND json_extract(data, '$.definition') IS NOT NULL
)

-- name: to_copy
-- A submitted run whose owner was killed is due.
SELECT machine, definition, created_at, format,
    iif(owner IS NULL OR needs IS NULL, due_at, 0.0), needs
FROM runs WHERE run = ?

-- name: all_messages
SELECT kind, message_id, data, at, consumed_at_seq FROM inbox
WHERE run_id = (SELECT id FROM runs WHERE run = ?) ORDER BY id

-- name: digests
SELECT digest FROM definitions

-- name: post
INSERT INTO inbox (run_id, message_id, kind, data, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run_id, message_id) DO NOTHING

-- name: posted
SELECT data FROM inbox WHERE run_id = ? AND message_id = ?

-- name: inbox
SELECT kind, message_id, data, at FROM inbox
WHERE run_id = :row AND consumed_at_seq IS NULL ORDER BY id

-- name: consume
UPDATE inbox SET consumed_at_seq = ?
WHERE run_id = ? AND message_id = ? AND consumed_at_seq IS NULL

-- name: store_definition
INSERT INTO definitions (digest, text) VALUES (:digest, :text) ON CONFLICT (digest) DO NOTHING

-- name: definition
SELECT text FROM definitions WHERE digest = :digest