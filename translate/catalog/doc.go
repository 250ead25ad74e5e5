// Package catalog gives skills names and finds skills by their names.
//
// A [Source] is a provider with an index, a registry, or the URL of a single descriptor. A
// [Catalog] gives each listed skill one name. [Catalog.Resolve] finds the skill of a name, in
// this order: a name that the operator configured; the source whose namespace the name starts
// with; and, if there is only one source, the skill with this id. So no source can take a
// name from another. Skills also have tool names, which language models accept. For them, too, the
// configuration decides which source may have which. [Catalog.Read] then reads the descriptor and
// selects the source whose credentials are used.
//
// The cache holds the documents. The catalog holds the names of the skills until the
// documents change, and the newest failure of each skill ([Faults]).
package catalog
