// Package catalog knows which skill a name means.
//
// A [Source] publishes skills: a provider in an index, a registry in its answers, or a
// single descriptor. A [Catalog] gives each listed skill one name and finds it again by
// that name ([Catalog.Resolve]): the operator's names come first, then a namespace at the
// beginning of the name decides, and a bare id counts only where there is a single
// source. So no source can take a name from another. [Catalog.Read] then reads the
// descriptor, and tells with whose credentials the skill is invoked.
//
// The catalog keeps no documents: they are in the cache. It keeps the names that it made
// of them for as long as they do not change, and why skills could not be used ([Faults]).
package catalog
