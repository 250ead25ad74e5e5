// Package browse serves a page on which people find skills and try them. Package bridge
// serves it to browsers, at the same URL as the endpoint for agents.
package browse
