//! The `tls-server-end-point` channel binding (RFC 5929): a hash of the server's certificate.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// Signature algorithms by the hash that the binding uses; md5 and SHA-1 are replaced by SHA-256.
const SHA256_SIGNATURES: &[&str] = &[
    "1.2.840.113549.1.1.4",
    "1.2.840.113549.1.1.5",
    "1.2.840.113549.1.1.11",
    "1.2.840.10045.4.1",
    "1.2.840.10045.4.3.2",
];
const SHA384_SIGNATURES: &[&str] = &["1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3"];
const SHA512_SIGNATURES: &[&str] = &["1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4"];

/// The binding's data for a certificate in DER; `None` where the standard defines no hash.
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let signature = parsed.signature_algorithm.oid.to_string();
    let known = |list: &[&str]| list.contains(&signature.as_str());
    let algorithm: &Algorithm = if known(SHA256_SIGNATURES) {
        &SHA256
    } else if known(SHA384_SIGNATURES) {
        &SHA384
    } else if known(SHA512_SIGNATURES) {
        &SHA512
    } else {
        return None;
    };
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_has_no_binding() {
        assert_eq!(server_end_point(b"garbage"), None);
    }
}
