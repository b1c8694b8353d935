-- Every statement that the PostgreSQL journal executes, by name; `@` stands for the schema.
-- A migration may hold several statements; no statement contains a semicolon of its own.

-- name: migration_1
CREATE TABLE @journal (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    era uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The place of the newest record that was removed.
    removed_tx xid8 NOT NULL DEFAULT '0',
    removed_id bigint NOT NULL DEFAULT 0
);
INSERT INTO @journal (version) VALUES (0);
CREATE TABLE @presences (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    pid integer NOT NULL,
    host text NOT NULL,
    -- After as many seconds without a beat it counts as dead.
    ttl double precision NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);
CREATE TABLE @runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text COLLATE "C" NOT NULL UNIQUE,
    machine text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    format integer NOT NULL,
    epoch bigint NOT NULL,
    owner text COLLATE "C",
    due_at timestamptz,
    submitted boolean NOT NULL DEFAULT false,
    needs text[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 70);
CREATE INDEX runs_due ON @runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_owned ON @runs (owner) WHERE owner IS NOT NULL;
-- Without a foreign key: it would cost 40 % of the time of an append.
CREATE TABLE @records (
    run_id bigint NOT NULL,
    seq bigint NOT NULL,
    tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bigint GENERATED ALWAYS AS IDENTITY,
    epoch bigint NOT NULL,
    at double precision NOT NULL,
    type text COLLATE "C" NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX records_in_order ON @records (tx, id);
CREATE INDEX records_that_name ON @records (run_id) WHERE type IN ('started', 'repaired');
CREATE TABLE @inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id bigint NOT NULL REFERENCES @runs (id) ON DELETE CASCADE,
    message_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    data text NOT NULL,
    at double precision NOT NULL,
    consumed_at_seq bigint,
    UNIQUE (run_id, message_id)
);
CREATE INDEX inbox_waiting ON @inbox (run_id) WHERE consumed_at_seq IS NULL;
-- Objects of git as it stores them, which are compressed.
CREATE TABLE @objects (
    id bytea PRIMARY KEY,
    data bytea NOT NULL,
    kept_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE @objects ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE @trees (
    digest text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    -- The first one is the commit.
    objects bytea[] NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (digest, run)
);
CREATE INDEX trees_of_runs ON @trees (run);
CREATE INDEX trees_with_objects ON @trees USING gin (objects);
CREATE TABLE @definitions (
    digest text COLLATE "C" PRIMARY KEY,
    text text NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now()
);
-- Of batches, in USD.
CREATE TABLE @accounts (
    name text COLLATE "C" PRIMARY KEY,
    most numeric,
    spent numeric NOT NULL,
    held numeric NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE @holds (
    key text COLLATE "C" PRIMARY KEY,
    account text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    usd numeric NOT NULL
);
CREATE INDEX holds_of_runs ON @holds (run);
CREATE INDEX holds_of_accounts ON @holds (account);
CREATE TABLE @providers (
    name text COLLATE "C" PRIMARY KEY,
    failures integer NOT NULL DEFAULT 0,
    closed_until timestamptz NOT NULL DEFAULT 'epoch',
    -- Who calls it to see whether it answers again.
    prober text COLLATE "C",
    -- Until when the calls of a minute are used up.
    used_until timestamptz NOT NULL DEFAULT 'epoch'
) WITH (fillfactor = 50);
CREATE TABLE @calls (
    provider text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL REFERENCES @presences (name) ON DELETE CASCADE,
    calls integer NOT NULL,
    PRIMARY KEY (provider, owner)
) WITH (fillfactor = 50)

-- name: version
SELECT version FROM @journal

-- name: era
SELECT era::text FROM @journal

-- name: set_version
UPDATE @journal SET version = %s

-- name: alive
-- Of two observers none takes the other for the owner, because they share the lock.
SELECT name FROM @presences WHERE CASE
    WHEN clock_timestamp() < pg_postmaster_start_time() + make_interval(secs => ttl) THEN true
    WHEN seen_at < clock_timestamp() - make_interval(secs => ttl) THEN false
    WHEN pg_is_in_recovery() THEN true
    ELSE NOT pg_try_advisory_xact_lock_shared((tableoid::bigint << 32) + id)
END

-- name: may_live
-- Whether the lock of a presence is free though its beat is young.
SELECT name FROM @presences WHERE name = ANY(%s)
AND seen_at >= clock_timestamp() - make_interval(secs => ttl)

-- name: appear
INSERT INTO @presences (name, pid, host, ttl) VALUES (%s, %s, %s, %s)
RETURNING id, (tableoid::bigint << 32) + id, extract(epoch FROM clock_timestamp())::float8

-- name: forget_dead
-- A run that names one of them has nobody. One that only stood still gets another name.
DELETE FROM @presences WHERE id IN (
    SELECT id FROM @presences WHERE name NOT IN (@ALIVE)
    AND seen_at < clock_timestamp() - interval '10 minutes' FOR UPDATE SKIP LOCKED
)

-- name: beat
UPDATE @presences SET seen_at = clock_timestamp() WHERE id = %s
RETURNING extract(epoch FROM seen_at)::float8

-- name: vanish
DELETE FROM @presences WHERE id = %s

-- name: restore
-- In another database the numbers of transactions began anew, and those of records go on.
UPDATE @runs SET epoch = epoch + 1000;
UPDATE @records SET tx = '0' WHERE tx <> '0';
DELETE FROM @presences;
UPDATE @journal SET era = gen_random_uuid(), removed_tx = '0', removed_id = 0

-- name: lock_all
LOCK TABLE @runs, @records, @presences IN EXCLUSIVE MODE

-- name: at_work
SELECT name FROM @presences
WHERE NOT pg_try_advisory_xact_lock_shared((tableoid::bigint << 32) + id)

-- name: known_runs
SELECT run, id, machine, definition, created_at FROM @runs WHERE run = ANY(%s)

-- name: copy_run
INSERT INTO @runs (run, machine, definition, created_at, format, due_at, submitted, needs, epoch)
VALUES (%s, %s, %s, %s, %s, to_timestamp(%s), %s, %s::text[], %s) RETURNING id

-- name: record
SELECT seq, epoch, at, type, data FROM @records WHERE run_id = %s AND seq = %s

-- name: copy_message
INSERT INTO @inbox (run_id, kind, message_id, data, at, consumed_at_seq)
VALUES (%s, %s, %s, %s, %s, %s)

-- name: run
SELECT id FROM @runs WHERE run = %(run)s

-- name: lock_whole
SELECT id FROM @runs WHERE id = ANY(%s) ORDER BY id FOR UPDATE

-- name: lock_shared
SELECT id FROM @runs WHERE id = ANY(%s) ORDER BY id FOR SHARE

-- name: lock_to_claim
SELECT id FROM @runs WHERE run = %s FOR NO KEY UPDATE

-- name: lock_to_post
SELECT id FROM @runs WHERE run = %s FOR KEY SHARE

-- name: heads
SELECT runs.id, runs.epoch, head.seq, own.seq
FROM unnest(%s::bigint[], %s::bigint[]) AS wanted (id, epoch) JOIN @runs AS runs USING (id)
LEFT JOIN LATERAL (
    SELECT seq FROM @records WHERE run_id = runs.id ORDER BY seq DESC LIMIT 1
) AS head ON true
LEFT JOIN LATERAL (
    SELECT seq FROM @records WHERE run_id = runs.id AND epoch = wanted.epoch
    ORDER BY seq DESC LIMIT 1
) AS own ON true

-- name: waiting
SELECT run_id, message_id, kind, consumed_at_seq FROM @inbox
WHERE run_id = ANY(%s) AND (consumed_at_seq IS NULL OR message_id = ANY(%s))

-- name: insert_runs
INSERT INTO @runs (run, machine, definition, created_at, format, epoch, owner, submitted, needs)
SELECT run, machine, definition, created_at, @FORMAT, 1, %s, needs IS NOT NULL,
    ARRAY(SELECT jsonb_array_elements_text(needs))
FROM unnest(%s::text[], %s::text[], %s::text[], %s::float8[], %s::jsonb[])
    AS new (run, machine, definition, created_at, needs)
ON CONFLICT (run) DO NOTHING RETURNING run, id

-- name: insert_records
-- Texts as they are (`b`): a list of them as text would take longer than all the rest, by its quotes.
INSERT INTO @records (run_id, seq, epoch, at, type, data)
SELECT * FROM unnest(
    %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[], %b::text[], %b::text[]
)

-- name: consume
UPDATE @inbox AS inbox SET consumed_at_seq = taken.seq
FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) AS taken (run_id, message_id, seq)
WHERE inbox.run_id = taken.run_id AND inbox.message_id = taken.message_id

-- name: disown
-- In PostgreSQL, the greatest of nothing and a time is the time.
UPDATE @runs AS runs SET owner = NULL, due_at = CASE
    WHEN submitted AND EXISTS (
        SELECT FROM @inbox WHERE run_id = runs.id AND consumed_at_seq IS NULL
    ) THEN now()
    WHEN released.due IS NOT NULL THEN greatest(to_timestamp(released.due), now())
END
FROM unnest(%s::bigint[], %s::bigint[], %s::float8[]) AS released (id, epoch, due)
WHERE runs.id = released.id AND runs.epoch = released.epoch AND owner IS NOT NULL

-- name: set_due
UPDATE @runs AS runs SET due_at = to_timestamp(named.due)
FROM unnest(%s::bigint[], %s::float8[]) AS named (id, due) WHERE runs.id = named.id

-- name: beginning
SELECT run_id, at, type, data FROM @records AS records JOIN @runs AS runs ON runs.id = run_id
WHERE run = %s AND records.epoch = 1 AND seq <= %s ORDER BY seq

-- name: to_claim
-- A submitted run whose owner was killed is due at once.
SELECT runs.epoch, owner, coalesce(
    extract(epoch FROM due_at)::float8, CASE WHEN owner IS NOT NULL AND submitted THEN 0 END
), format, head.* FROM @runs AS runs LEFT JOIN LATERAL (
    SELECT seq FROM @records WHERE run_id = runs.id ORDER BY seq DESC LIMIT 1
) AS head ON true WHERE id = %s

-- name: own
UPDATE @runs SET epoch = %s, owner = %s, format = greatest(format, @FORMAT) WHERE id = %s

-- name: newest_claim
SELECT coalesce(owner, ''), at, data FROM @records AS records JOIN @runs AS runs ON runs.id = run_id
WHERE run_id = %s AND type = %s ORDER BY seq DESC LIMIT 1

-- name: whole
-- Of a run, the number of a record that is missing, and its last record.
SELECT (
    SELECT place FROM (
        SELECT seq, row_number() OVER (ORDER BY seq) AS place FROM @records WHERE run_id = runs.id
    ) AS numbered WHERE seq <> place ORDER BY place LIMIT 1
), head.* FROM @runs AS runs LEFT JOIN LATERAL (
    SELECT seq FROM @records WHERE run_id = runs.id ORDER BY seq DESC LIMIT 1
) AS head ON true WHERE run = %(run)s

-- name: read
-- The length in characters would be that of texts which are read and uncompressed first.
SELECT seq, epoch, at, type, data FROM (
    SELECT *, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS size FROM (
        SELECT seq, epoch, at, type, data FROM @records
        WHERE run_id = (SELECT id FROM @runs WHERE run = %(run)s) AND seq > %(after)s AND seq <= %(until)s ORDER BY seq LIMIT 5000
    ) AS next
) AS measured WHERE size <= %(size)s ORDER BY seq

-- name: submit
-- A host that keeps what the run needs is still needed.
UPDATE @runs SET submitted = true, due_at = now(), needs = %(needs)s::text[] || ARRAY(
    SELECT need FROM unnest(needs) AS need
    WHERE starts_with(need, 'host:') AND need <> ALL (%(needs)s::text[])
) WHERE run = %(run)s RETURNING id

-- name: due
-- A child is due in its root. Without a time, an owner was killed; these come first.
WITH alive AS MATERIALIZED (@ALIVE)
SELECT root.run, extract(epoch FROM min(member.due_at))::float8
FROM @runs AS member JOIN @runs AS root ON root.run = split_part(member.run, '/', 1)
WHERE member.id IN (
    SELECT id FROM @runs WHERE due_at <= now()
    UNION ALL SELECT id FROM @runs WHERE owner IS NOT NULL AND submitted
)
AND (%(every)s OR root.submitted) AND root.format <= @FORMAT AND root.needs <@ %(labels)s::text[]
AND (root.owner IS NULL OR root.owner NOT IN (SELECT name FROM alive))
GROUP BY root.id ORDER BY min(member.due_at) NULLS FIRST LIMIT %(limit)s

-- name: turn
-- What is due, for one who asks at a time: in one statement, so that nobody keeps the turn.
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock('@runs'::regclass::bigint) AS is_mine
), found (run, since) AS MATERIALIZED (@DUE)
SELECT is_mine, run, since FROM turn LEFT JOIN found ON is_mine ORDER BY since NULLS FIRST

-- name: is_submitted
SELECT id FROM @runs WHERE run = %(run)s AND submitted

-- name: mailed
SELECT DISTINCT run FROM @runs AS runs JOIN @inbox ON run_id = runs.id
WHERE owner = %(owner)s AND consumed_at_seq IS NULL

-- name: standings
WITH alive AS MATERIALIZED (@ALIVE), due AS MATERIALIZED (
    SELECT split_part(run, '/', 1) AS root, min(due_at) AS since FROM @runs
    WHERE due_at <= now() GROUP BY root
), roots AS (
    SELECT coalesce((
        SELECT type FROM @records WHERE run_id = runs.id AND type <> 'claimed'
        ORDER BY seq DESC LIMIT 1
    ), '') AS last, owner, submitted, due.since,
    coalesce(owner IN (SELECT name FROM alive), false) AS is_driven
    FROM @runs AS runs LEFT JOIN due ON due.root = run WHERE position('/' in run) = 0
)
SELECT last, is_driven, is_due, count(*), extract(epoch FROM min(since))::float8
FROM roots, LATERAL (
    SELECT submitted AND NOT is_driven AND (owner IS NOT NULL OR since IS NOT NULL)
) AS of (is_due)
GROUP BY last, is_driven, is_due

-- name: runs
WITH alive AS MATERIALIZED (@ALIVE)
SELECT runs.id, run, machine, definition, created_at, coalesce(head.at, created_at),
    coalesce(head.seq, 0), coalesce(owner IN (SELECT name FROM alive), false)
FROM @runs AS runs LEFT JOIN LATERAL (
    SELECT seq, at, type FROM @records WHERE run_id = runs.id ORDER BY seq DESC LIMIT 1
) AS head ON true
WHERE (%(machine)s::text IS NULL OR machine = %(machine)s)
AND (%(run)s::text IS NULL OR run = %(run)s)
AND (%(children)s OR %(run)s::text IS NOT NULL OR position('/' in run) = 0)
AND (%(before)s::text IS NULL OR runs.id < (SELECT id FROM @runs WHERE run = %(before)s))
AND (%(below)s::bigint IS NULL OR runs.id < %(below)s)
AND coalesce(head.type <> ALL (%(skipping)s::text[]), true)
ORDER BY runs.id DESC LIMIT %(limit)s

-- name: histories
SELECT run, seq, measured.epoch, at, type, data FROM (
    SELECT *, sum(octet_length(data)) OVER (ORDER BY run_id, seq) - octet_length(data) AS size
    FROM @records WHERE run_id IN (SELECT id FROM @runs WHERE run = ANY(%(runs)s))
) AS measured JOIN @runs AS runs ON runs.id = run_id WHERE size <= %(size)s ORDER BY run_id, seq

-- name: named
SELECT run FROM @runs WHERE starts_with(run, %(beginning)s)
AND position('/' in substr(run, length(%(beginning)s) + 1)) = 0
ORDER BY id DESC LIMIT %(limit)s

-- name: records_after
-- What is not below the oldest transaction under way may still get something before it.
SELECT era::text, tx::text::bigint, found.id, run, seq, epoch, at, type, data FROM @journal LEFT JOIN (
    SELECT tx, id, run, seq, epoch, at, type, data FROM (
        SELECT *, sum(octet_length(data)) OVER (ORDER BY tx, id) - octet_length(data) AS size FROM (
            SELECT tx, records.id, run, seq, records.epoch, at, type, data
            FROM @records AS records JOIN @runs AS runs ON runs.id = run_id
            WHERE (tx, records.id) > (%(tx)s::text::xid8, %(id)s)
            AND tx < pg_snapshot_xmin(pg_current_snapshot())
            AND (%(family)s::text IS NULL OR run = %(family)s
                OR run > %(family)s || '/' AND run < %(family)s || '0')
            ORDER BY tx, records.id LIMIT %(limit)s
        ) AS next
    ) AS measured WHERE size <= %(size)s
) AS found ON true ORDER BY found.tx, found.id

-- name: newest
-- It never falls where the newest records were removed, and never passes what is not written yet.
SELECT era::text, removed_tx::text::bigint, removed_id, newest.tx::text::bigint, newest.id,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint
FROM @journal LEFT JOIN (
    SELECT tx, id FROM @records
    WHERE tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY tx DESC, id DESC LIMIT 1
) AS newest ON true

-- name: family
SELECT id, run, owner FROM @runs
WHERE run = %(run)s OR run > %(run)s || '/' AND run < %(run)s || '0' ORDER BY id FOR UPDATE

-- name: named_by_runs
-- Old definitions that these runs name: what they began with, their scenarios, their repairs.
SELECT digest FROM @definitions WHERE stored_at < now() - interval '1 day' AND (
    digest IN (SELECT definition FROM @runs WHERE id = ANY(%(rows)s))
    OR EXISTS (
        SELECT FROM @records WHERE run_id = ANY(%(rows)s) AND type IN ('started', 'repaired')
        AND position(digest in data) > 0
    )
)

-- name: note_removal
UPDATE @journal SET removed_tx = newest.tx, removed_id = newest.id FROM (
    SELECT tx, id FROM @records WHERE run_id = ANY(%s) ORDER BY tx DESC, id DESC LIMIT 1
) AS newest WHERE (newest.tx, newest.id) > (removed_tx, removed_id)

-- name: remove_records
DELETE FROM @records WHERE run_id = ANY(%s)

-- name: remove_runs
DELETE FROM @runs WHERE id = ANY(%s)

-- name: remove_holds
WITH gone AS (DELETE FROM @holds WHERE run = ANY(%s) RETURNING account, usd),
freed AS (SELECT account, sum(usd) AS usd FROM gone GROUP BY account)
UPDATE @accounts SET held = held - freed.usd FROM freed WHERE name = freed.account

-- name: remove_definitions
DELETE FROM @definitions WHERE digest = ANY(%s)
AND digest NOT IN (SELECT definition FROM @runs)
AND NOT EXISTS (
    SELECT FROM @records WHERE type IN ('started', 'repaired') AND position(digest in data) > 0
)

-- name: remove_trees
-- Whoever is about to name an object has touched it.
WITH gone AS (DELETE FROM @trees WHERE run = ANY(%(runs)s) RETURNING objects)
DELETE FROM @objects AS object WHERE id IN (SELECT unnest(objects) FROM gone)
AND kept_at < now() - interval '2 hours'
AND NOT EXISTS (SELECT FROM @trees WHERE objects @> ARRAY[object.id] AND run <> ALL(%(runs)s))

-- name: kept_tree
SELECT run, objects FROM @trees WHERE digest = %(digest)s ORDER BY run <> %(run)s LIMIT 1

-- name: kept_bytes
SELECT coalesce(sum(bytes), 0)::bigint FROM @trees
WHERE run = %(run)s OR run > %(run)s || '/' AND run < %(run)s || '0'

-- name: touch_objects
UPDATE @objects SET kept_at = now() WHERE id = ANY(%s) RETURNING id

-- name: store_object
INSERT INTO @objects (id, data) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING

-- name: objects
SELECT id, data FROM @objects WHERE id = ANY(%s)

-- name: store_tree
INSERT INTO @trees (digest, run, objects, bytes) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING

-- name: bind
UPDATE @runs SET needs = array_append(needs, %(label)s)
WHERE run = %(root)s AND NOT needs @> ARRAY[%(label)s]

-- name: store_definition
INSERT INTO @definitions AS known (digest, text) VALUES (%(digest)s, %(text)s)
ON CONFLICT (digest) DO UPDATE SET stored_at = now()
WHERE known.stored_at < now() - interval '1 hour'

-- name: definition
SELECT text FROM @definitions WHERE digest = %(digest)s

-- name: post
INSERT INTO @inbox (run_id, message_id, kind, data, at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (run_id, message_id) DO NOTHING RETURNING id

-- name: posted
SELECT kind, data, at FROM @inbox WHERE run_id = %s AND message_id = %s

-- name: hasten
UPDATE @runs SET due_at = least(coalesce(due_at, now()), now()) WHERE id = %s AND submitted
RETURNING id

-- name: inbox
SELECT kind, message_id, data, at FROM @inbox
WHERE run_id = %(row)s AND consumed_at_seq IS NULL ORDER BY id

-- name: open_account
INSERT INTO @accounts (name, most, spent) VALUES (%s, %s::float8, %s::float8)
ON CONFLICT (name) DO UPDATE SET most = excluded.most

-- name: standing
-- What is held for a run that nobody drives now will not become less.
SELECT most::float8, (spent + held)::float8, (
    SELECT coalesce(sum(usd), 0)::float8 FROM @holds AS holds
    JOIN @runs AS runs ON runs.run = holds.run AND runs.owner = holds.owner
    JOIN @presences AS presences ON presences.name = holds.owner
    WHERE account = %(account)s AND holds.owner <> %(owner)s
    AND seen_at >= clock_timestamp() - make_interval(secs => ttl)
) FROM @accounts WHERE name = %(account)s

-- name: free_hold
WITH gone AS (DELETE FROM @holds WHERE key = %(key)s RETURNING account, usd)
UPDATE @accounts SET held = held - gone.usd FROM gone WHERE name = gone.account

-- name: hold
UPDATE @accounts SET held = held + %(usd)s::float8::numeric WHERE name = %(account)s
AND (most IS NULL OR spent + held + %(usd)s::float8::numeric <= most + 0.000000001) RETURNING name

-- name: note_hold
INSERT INTO @holds (key, account, run, owner, usd)
VALUES (%(key)s, %(account)s, %(run)s, %(owner)s, %(usd)s::float8)

-- name: free_other_holds
WITH gone AS (DELETE FROM @holds WHERE run = %s AND key <> ALL(%s::text[]) RETURNING account, usd),
freed AS (SELECT account, sum(usd) AS usd FROM gone GROUP BY account)
UPDATE @accounts SET held = held - freed.usd FROM freed WHERE name = freed.account

-- name: settle
WITH told AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[]) AS told (key, account, usd)
),
gone AS (DELETE FROM @holds AS holds USING told WHERE holds.key = told.key
    RETURNING holds.key, holds.usd AS held),
sums AS (
    SELECT account, sum(usd::numeric) AS usd, sum(coalesce(held, 0)) AS held
    FROM told LEFT JOIN gone USING (key) GROUP BY account
)
UPDATE @accounts AS accounts SET held = accounts.held - sums.held, spent = spent + sums.usd
FROM sums WHERE name = sums.account

-- name: circuits
SELECT name, failures,
    greatest(extract(epoch FROM closed_until - clock_timestamp()), 0)::float8
FROM @providers WHERE failures > 0

-- name: record_failure
INSERT INTO @providers AS known (name, failures, closed_until) VALUES (
    %(provider)s, 1, clock_timestamp() + make_interval(secs => CASE
        WHEN %(threshold)s <= 1 THEN greatest(%(closed)s, %(opens)s) ELSE %(closed)s END)
)
ON CONFLICT (name) DO UPDATE SET failures = known.failures + 1, prober = NULL,
closed_until = greatest(known.closed_until, clock_timestamp() + make_interval(secs => CASE
    WHEN known.failures + 1 >= %(threshold)s THEN greatest(%(closed)s, %(opens)s)
    ELSE %(closed)s
END))

-- name: record_answer
UPDATE @providers SET failures = 0, prober = NULL, closed_until = 'epoch'
WHERE name = %s AND failures > 0

-- name: probe
WITH alive AS MATERIALIZED (@ALIVE)
UPDATE @providers SET prober = %(owner)s WHERE name = %(provider)s
AND (prober IS NULL OR prober NOT IN (SELECT name FROM alive)) RETURNING name

-- name: release_probe
UPDATE @providers SET prober = NULL WHERE name = %s AND prober = %s

-- name: lock_provider
INSERT INTO @providers (name) VALUES (%s) ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING greatest(extract(epoch FROM used_until - clock_timestamp()), 0)::float8

-- name: calls_elsewhere
WITH alive AS MATERIALIZED (@ALIVE)
SELECT coalesce(sum(calls), 0)::integer FROM @calls
WHERE provider = %s AND owner <> %s AND owner IN (SELECT name FROM alive)

-- name: use_minute
UPDATE @providers SET used_until = greatest(used_until, clock_timestamp())
    + make_interval(secs => %s) WHERE name = %s

-- name: note_calls
INSERT INTO @calls (provider, owner, calls) VALUES (%s, %s, %s)
ON CONFLICT (provider, owner) DO UPDATE SET calls = excluded.calls
