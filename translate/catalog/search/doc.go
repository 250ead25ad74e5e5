// Package search finds skills by words of their names, tags, titles and descriptions.
//
// An [Index] has the words of the skills of one source. [Find] searches several indexes. Providers choose
// the texts, and agents the queries, so both are bounded: an index of 10,000 skills takes at most some 10 MB
// and usually a tenth of that. A query counts at most 16 words, each of which costs at most two steps for each
// skill, and one for each of 20,480 words of the index.
package search
