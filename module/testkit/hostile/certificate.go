package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A Certificate is a kind of server certificate.
type Certificate int

// The kinds of certificates. Except WrongHost, they are for 127.0.0.1, ::1, localhost and the names
// directly below example.com and example.test.
const (
	Valid            Certificate = iota // of the CA
	Expired                             // of the CA, expired an hour ago
	WrongHost                           // of the CA, for another host
	SelfSigned                          // of no authority
	TLS11                               // valid, over TLS 1.1 only
	StalledHandshake                    // the client's first message is never answered
)

// A CA is the certificate authority of a test.
type CA struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

// NewCA returns a new certificate authority.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca := &CA{tb: tb, file: filepath.Join(tb.TempDir(), "ca.pem")}
	template := ca.template("Test CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageCertSign, nil
	var raw []byte
	raw, ca.key = ca.sign(template, nil)
	var err error
	if ca.cert, err = x509.ParseCertificate(raw); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(ca.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return ca
}

// File returns the path of the CA's certificate in PEM, for tls_trust_pool.
func (ca *CA) File() string { return ca.file }

// Transport returns the transport option of a skill_bridge that trusts the CA.
func (ca *CA) Transport() string {
	return "transport http {\n\ttls_trust_pool file " + ca.file + "\n}"
}

// ClientConfig returns the TLS configuration of a client that trusts only the CA.
func (ca *CA) ClientConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// ServerCertificate creates a [Valid] server certificate, and returns the paths of the certificate and of its key.
func (ca *CA) ServerCertificate() (certificate, key string) {
	ca.tb.Helper()
	return ca.write(ca.sign(ca.serverTemplate(), ca.cert))
}

// ClientCertificate creates a client certificate of the CA for a name, and returns the paths of the
// certificate and of its key.
func (ca *CA) ClientCertificate(name string) (certificate, key string) {
	ca.tb.Helper()
	template := ca.template(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.write(ca.sign(template, ca.cert))
}

// write writes a certificate and its key to files.
func (ca *CA) write(raw []byte, private *ecdsa.PrivateKey) (certificate, key string) {
	ca.tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		ca.tb.Fatal(err)
	}
	folder := ca.tb.TempDir()
	certificate, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			ca.tb.Fatal(err)
		}
	}
	return certificate, key
}

func (ca *CA) template(name string) *x509.Certificate {
	ca.tb.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		ca.tb.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// sign creates a key and signs a certificate for it, with the CA's key, or with the new key if parent
// is nil.
func (ca *CA) sign(template, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	ca.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.tb.Fatal(err)
	}
	signer := ca.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		ca.tb.Fatal(err)
	}
	return raw, key
}

func (ca *CA) serverTemplate() *x509.Certificate {
	ca.tb.Helper()
	template := ca.template("Test")
	template.DNSNames = []string{"localhost", "example.com", "*.example.com", "example.test", "*.example.test"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return template
}

func (ca *CA) serverConfig(kind Certificate) *tls.Config {
	ca.tb.Helper()
	template, parent := ca.serverTemplate(), ca.cert
	switch kind {
	case Expired:
		template.NotAfter = time.Now().Add(-time.Hour)
	case WrongHost:
		template.DNSNames, template.IPAddresses = []string{"other.example.org"}, nil
	case SelfSigned:
		parent = nil
	}
	raw, key := ca.sign(template, parent)
	config := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}},
		ClientAuth:   tls.RequestClientCert, // optional
	}
	if kind == TLS11 {
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	}
	return config
}
