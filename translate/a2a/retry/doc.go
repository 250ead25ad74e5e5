// Package retry tries again to follow runs whose provider can't be reached for the moment.
package retry
