// Package keeping has the options of a handler about what must not be forgotten: the database that holds it (store), for how long (keep), and
// what encrypts the texts that clients and the database get (seal_key). The modules in http.skill_bridge.store are the kinds of databases.
package keeping
