CREATE TABLE runs (
	realm    BLOB NOT NULL,
	owner    BLOB NOT NULL,
	id       BLOB NOT NULL,
	size     INTEGER NOT NULL, -- of notes and outcomes; before what is long, to count what an owner has
	key      BLOB,
	front    TEXT NOT NULL,
	skill    BLOB NOT NULL,
	asked    BLOB NOT NULL,
	ref      BLOB NOT NULL, -- JSON
	state    INTEGER NOT NULL,
	follower TEXT NOT NULL, -- empty: none
	args     BLOB,
	single   BOOLEAN NOT NULL,
	notes    BLOB,
	outcome  BLOB,
	apart    INTEGER NOT NULL,
	grp      BLOB, -- the label; null: none
	stage    INTEGER,
	at       INTEGER,
	version  INTEGER NOT NULL,
	created  INTEGER NOT NULL, -- times are in milliseconds
	changed  INTEGER NOT NULL,
	expires  INTEGER NOT NULL,
	PRIMARY KEY (realm, owner, id)
) WITHOUT ROWID;
-- A run that ends at once changes each of these indexes at most twice: most of the time of a claim goes into them.
CREATE UNIQUE INDEX runs_key ON runs (realm, owner, key) WHERE key IS NOT NULL;
CREATE INDEX runs_open ON runs (follower, realm, expires, front, state, size) WHERE state < {ended}; -- also counts and lists what is open
CREATE INDEX runs_expires ON runs (expires, state, size) WHERE state >= {ended}; -- also counts what has ended
CREATE INDEX runs_label ON runs (realm, owner, at, id) WHERE stage IS NOT NULL;
CREATE INDEX runs_listed ON runs (substr(id, 1)); -- for the operator; an expression, since the lists of owners must not use it
CREATE INDEX runs_failed ON runs (substr(id, 1)) WHERE state > {ended}; -- the same of those that did not complete

CREATE TABLE outputs (
	realm  BLOB NOT NULL,
	owner  BLOB NOT NULL,
	id     BLOB NOT NULL,
	output BLOB NOT NULL,
	PRIMARY KEY (realm, owner, id),
	FOREIGN KEY (realm, owner, id) REFERENCES runs ON DELETE CASCADE
);

CREATE TABLE deliveries (
	realm    BLOB NOT NULL,
	owner    BLOB NOT NULL,
	id       BLOB NOT NULL,
	receiver BLOB NOT NULL,
	front    TEXT NOT NULL,
	host     BLOB NOT NULL,
	target   BLOB NOT NULL, -- with sealed credentials
	end_only BOOLEAN NOT NULL,
	position INTEGER NOT NULL, -- the last version of the run that was delivered
	tries    INTEGER NOT NULL,
	claimed  BOOLEAN NOT NULL,
	next     INTEGER, -- when the delivery is due, or its claim ends; null: when the run has news
	since    INTEGER NOT NULL,
	version  INTEGER NOT NULL,
	PRIMARY KEY (realm, owner, id, receiver),
	FOREIGN KEY (realm, owner, id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX deliveries_next ON deliveries (next) WHERE next IS NOT NULL;
CREATE INDEX deliveries_open ON deliveries (realm, owner, id, receiver) WHERE position < 9223372036854775807; -- the others are over

CREATE TABLE instances (
	id      TEXT NOT NULL PRIMARY KEY,
	lease   INTEGER NOT NULL,
	process TEXT NOT NULL DEFAULT '' -- which one of the machine; empty: not known
);
CREATE INDEX instances_lease ON instances (lease);

CREATE TABLE things (
	kind    TEXT NOT NULL,
	name    BLOB NOT NULL,
	value   BLOB NOT NULL,
	version INTEGER NOT NULL,
	expires INTEGER, -- null: never
	PRIMARY KEY (kind, name)
);
CREATE INDEX things_expires ON things (expires) WHERE expires IS NOT NULL;
