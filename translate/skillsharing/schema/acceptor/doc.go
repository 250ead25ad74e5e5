// Package acceptor recognizes the raw texts of JSON values that a schema certainly accepts. Most arguments are valid and most
// schemas have only the usual keywords; for these, one pass over the text takes a tenth of the time of decoding the value and
// applying the schema with the library. The answer is «certainly valid» or «ask the library»: the library makes every rejection,
// and applies all keywords that this package does not know.
package acceptor
