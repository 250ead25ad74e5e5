// Package runtoken seals a [run.Ref] into a token that an agent keeps, so that no
// instance of the bridge has to store runs.
//
// # Use
//
// One instance makes a token, and every instance with the same [Keys] and the same
// configuration can open it:
//
//	sealer := runtoken.New(keys, runtoken.Lifetime, nil)
//	token, err := sealer.Seal(ctx, ref, block(ref.Source), principal)
//	…
//	ref, err := sealer.Open(ctx, token, block, principal)
//	switch {
//	case errors.Is(err, runtoken.ErrInvalid): // the token is invalid
//	case err != nil: // the keys can't be read at the moment
//	}
//
// # Format
//
// A token is base64url without padding (RFC 4648, section 5) of
//
//	version (1 byte) || key id (4) || nonce (24) || ciphertext || tag (16)
//
// by XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), whose nonces are long enough
// to be random. Version, key id and principal are its additional data. The plaintext is
//
//	expiry in Unix seconds (8 bytes) || acceptance and earliest next request in Unix milliseconds (8 each) ||
//	digest of the block (16) ||
//	source || skill id || version || execution id || id of the kept record, if there is one
//
// Each text follows its length (2 bytes). Integers are big-endian. Without the key, a
// token reveals only its length and which other tokens have the same key.
//
// # Validity
//
// A token is valid for the lifetime of its [Sealer], for the principal that it was made for, and as long as
// the [Block] of its source does not change. All other tokens are refused with
// [ErrInvalid], which does not say why. A token is no credential: whether the run's URLs
// may be requested and secrets may be sent is checked when the run is followed.
package runtoken
