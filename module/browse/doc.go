// Package browse serves a page on which people find skills and try them. Package bridge
// serves it to browsers, beside the endpoint of agents.
package browse
