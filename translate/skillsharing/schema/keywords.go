package schema

// The keywords whose values are a schema or an array of schemas, and those whose
// values are objects with schemas in them (Draft 2020-12 and its predecessors).
var (
	SchemaKeywords = []string{
		"additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items",
		"not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
	}
	SchemaMapKeywords = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
