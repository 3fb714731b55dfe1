//! The certificate with which this side proves itself: libpq's `sslcert` and `sslkey`.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::tls::TlsError;

/// A certificate with its chain, and its key.
#[derive(Debug)]
pub(super) struct ClientCertificate {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl ClientCertificate {
    /// Reads the files that are named, else libpq's default ones if they are there.
    pub(super) fn find(
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Option<Self>, TlsError> {
        let home = std::env::home_dir().unwrap_or_default().join(".postgresql");
        let is_named = certificate.is_some();
        let certificate = certificate.unwrap_or_else(|| home.join("postgresql.crt"));
        let key = key.unwrap_or_else(|| home.join("postgresql.key"));
        if !is_named && !certificate.exists() {
            return Ok(None);
        }
        Self::read(&certificate, &key).map(Some)
    }

    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let error = |path: &Path, reason: String| TlsError::ClientCertificate {
            path: path.to_owned(),
            reason,
        };
        let pem = fs::read(certificate).map_err(|reason| error(certificate, reason.to_string()))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|reason| error(certificate, reason.to_string()))?;
        if chain.is_empty() {
            return Err(error(certificate, "it holds no certificate in PEM form".to_owned()));
        }
        check_privacy(key)?;
        let pem = fs::read(key).map_err(|reason| error(key, reason.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|reason| {
            let encrypted = pem.windows(9).any(|window| window == b"ENCRYPTED");
            let hint = "it is encrypted, which is not supported: decrypt it with `openssl pkey`";
            error(key, if encrypted { hint.to_owned() } else { reason.to_string() })
        })?;
        Ok(Self { chain, key })
    }
}

/// As in libpq: nobody else may read the key, but a key of root's may be readable by a group.
fn check_privacy(key: &Path) -> Result<(), TlsError> {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(metadata) = fs::metadata(key) else { return Ok(()) };
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden == 0 {
        return Ok(());
    }
    Err(TlsError::ClientCertificate {
        path: key.to_owned(),
        reason: "others may read it, so it is not used; chmod 0600 makes it private".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_missing_or_readable_by_others_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("c"), directory.path().join("k"));
        let find = || {
            ClientCertificate::find(Some(certificate.clone()), Some(key.clone()))
                .unwrap_err()
                .to_string()
        };
        assert!(find().contains(certificate.to_str().unwrap()));
        fs::write(&certificate, "nothing").unwrap();
        assert!(find().contains("no certificate"), "{}", find());
        fs::write(&key, "k").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check_privacy(&key).unwrap_err().to_string().contains("chmod 0600"));
    }
}
