// Package runtoken seals what is needed to follow a run into a token that an
// agent keeps, so that no instance of the bridge has to keep a table of runs.
//
// # Use
//
// An instance gives a token out, and any other one with the same [Keys] and the
// same configuration takes it back:
//
//	sealer := runtoken.New(keys, nil)
//	token, err := sealer.Seal(ctx, run, block(run.Source), principal)
//	…
//	run, err := sealer.Open(ctx, token, block, principal)
//	switch {
//	case errors.Is(err, runtoken.ErrInvalid): // for ever
//	case err != nil: // the keys can't be had now
//	}
//
// # What a token says
//
// To whoever has no key, nothing but how long it is and which tokens were made
// with the same key. It is base64url without padding (RFC 4648, section 5) of
//
//	version (1 byte) || key id (4) || nonce (24) || ciphertext || tag (16)
//
// by XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), whose nonces are long enough
// to be drawn at random. Version, key id and principal are its additional data. The
// plaintext is
//
//	expiry in Unix seconds (8 bytes) || acceptance and earliest next request in Unix milliseconds (8 each) || digest of the bridge (16) || whether bridges are alike (1) || digest of the site (16) || source || skill id || version || execution id
//
// with each text after its length (2 bytes). Integers are big-endian.
//
// # What it is worth
//
// A token is valid for [Lifetime], for the principal that it was given to, and as
// long as the [Block] of its source is what it was. All other tokens are refused
// with [ErrInvalid], so that nobody learns why. It is no credential: that somebody
// may follow a run does not mean that the run's URLs may be reached or that its
// secrets may be sent, which is judged when it is used.
package runtoken
