CREATE TABLE runs (
	realm    bytea NOT NULL,
	owner    bytea NOT NULL,
	id       bytea NOT NULL,
	key      bytea,
	front    TEXT NOT NULL,
	skill    bytea NOT NULL,
	asked    bytea NOT NULL,
	ref      bytea NOT NULL, -- JSON
	state    SMALLINT NOT NULL,
	follower TEXT NOT NULL, -- empty: none
	args     bytea,
	single   BOOLEAN NOT NULL,
	notes    bytea,
	outcome  bytea,
	apart    BIGINT NOT NULL,
	grp      bytea, -- the label; null: none
	stage    SMALLINT,
	at       BIGINT,
	version  BIGINT NOT NULL,
	created  BIGINT NOT NULL, -- times are in milliseconds
	changed  BIGINT NOT NULL,
	expires  BIGINT NOT NULL,
	size     BIGINT NOT NULL, -- of notes and outcomes
	PRIMARY KEY (realm, owner, id) INCLUDE (size) -- counts what an owner has
);
CREATE UNIQUE INDEX runs_key ON runs (realm, owner, key) WHERE key IS NOT NULL;
CREATE INDEX runs_open ON runs (follower, realm, expires) INCLUDE (front, state, owner, id) WHERE state < {ended}; -- also counts and lists what is open
CREATE INDEX runs_expires ON runs (expires) WHERE state >= {ended};
CREATE INDEX runs_label ON runs (realm, owner, at, id) WHERE stage IS NOT NULL;
CREATE INDEX runs_listed ON runs (substr(id, 1)); -- for the operator; an expression, since the lists of owners must not use it
CREATE INDEX runs_failed ON runs (substr(id, 1)) WHERE state > {ended}; -- the same of those that did not complete

CREATE TABLE outputs (
	realm  bytea NOT NULL,
	owner  bytea NOT NULL,
	id     bytea NOT NULL,
	output bytea NOT NULL,
	PRIMARY KEY (realm, owner, id),
	FOREIGN KEY (realm, owner, id) REFERENCES runs ON DELETE CASCADE
);

CREATE TABLE deliveries (
	realm    bytea NOT NULL,
	owner    bytea NOT NULL,
	id       bytea NOT NULL,
	receiver bytea NOT NULL,
	front    TEXT NOT NULL,
	host     bytea NOT NULL,
	target   bytea NOT NULL, -- with sealed credentials
	end_only BOOLEAN NOT NULL,
	position BIGINT NOT NULL, -- the last version of the run that was delivered
	tries    INTEGER NOT NULL,
	claimed  BOOLEAN NOT NULL,
	next     BIGINT, -- when the delivery is due, or its claim ends; null: when the run has news
	since    BIGINT NOT NULL,
	version  BIGINT NOT NULL,
	PRIMARY KEY (realm, owner, id, receiver),
	FOREIGN KEY (realm, owner, id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX deliveries_next ON deliveries (next) WHERE next IS NOT NULL;
CREATE INDEX deliveries_open ON deliveries (realm, owner, id, receiver) WHERE position < 9223372036854775807; -- the others are over

CREATE TABLE instances (
	id      TEXT NOT NULL PRIMARY KEY,
	lease   BIGINT NOT NULL,
	process TEXT NOT NULL DEFAULT '' -- which one of the machine; empty: not known
);
CREATE INDEX instances_lease ON instances (lease);

CREATE TABLE things (
	kind    TEXT NOT NULL,
	name    bytea NOT NULL,
	value   bytea NOT NULL,
	version BIGINT NOT NULL,
	expires BIGINT, -- null: never
	PRIMARY KEY (kind, name)
);
CREATE INDEX things_expires ON things (expires) WHERE expires IS NOT NULL;
