// Package observe turns what the bridge reports into log lines, metrics, spans, the audit
// log, fields of Caddy's access log, and the health of sources. Package bridge makes an
// [Observer] for each handler; the admin API reads the bridges that are [Live].
package observe
