// Package usage counts which callers use which skills, within a bound of memory.
package usage
