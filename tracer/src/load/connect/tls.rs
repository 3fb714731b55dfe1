//! TLS as libpq's `sslmode` means it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Whether to use TLS and what to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Never.
    Disable,
    /// When the server offers it; libpq's default.
    #[default]
    Prefer,
    /// Always, the certificate unchecked unless a root certificate is there.
    Require,
    /// Always, signed by a known authority.
    VerifyCa,
    /// The same, and for this host.
    VerifyFull,
}

/// TLS that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not one of libpq's modes, or one that is not supported.
    #[error(
        "sslmode `{0}` is not supported; use disable, prefer, require, verify-ca or verify-full"
    )]
    Mode(String),
    /// A mode that verifies has nothing to verify against.
    #[error(
        "sslmode verify-ca and verify-full need root certificates, but {path} is not there; \
         name the file with sslrootcert= or PGSSLROOTCERT", path = .0.display()
    )]
    NoRoots(PathBuf),
    /// The root certificates cannot be read.
    #[error("cannot read the root certificates in {path}: {reason}", path = .path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// rustls refused the configuration.
    #[error("TLS cannot be configured: {0}")]
    Config(#[from] Error),
}

impl std::str::FromStr for SslMode {
    type Err = TlsError;

    fn from_str(mode: &str) -> Result<Self, TlsError> {
        match mode {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            other => Err(TlsError::Mode(other.to_owned())),
        }
    }
}

/// The rustls configuration for `mode`; `None` when TLS is never used.
pub(super) fn client_config(
    mode: SslMode,
    root_file: Option<&Path>,
) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    if mode == SslMode::Disable {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let verifier = verifier(mode, root_file, provider)?;
    let config =
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

fn verifier(
    mode: SslMode,
    root_file: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let algorithms = provider.signature_verification_algorithms;
    let default_file = env::home_dir().unwrap_or_default().join(".postgresql").join("root.crt");
    let file = root_file.unwrap_or(&default_file);
    let verifies = matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull);
    if !file.exists() {
        return if verifies {
            Err(TlsError::NoRoots(file.to_owned()))
        } else {
            Ok(Arc::new(Lenient { chain: None, algorithms }))
        };
    }
    if mode == SslMode::Prefer {
        return Ok(Arc::new(Lenient { chain: None, algorithms }));
    }
    let roots = Arc::new(read_roots(file)?);
    let chain = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| TlsError::Roots { path: file.to_owned(), reason: error.to_string() })?;
    if mode == SslMode::VerifyFull {
        return Ok(chain);
    }
    Ok(Arc::new(Lenient { chain: Some(chain), algorithms }))
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let error = |reason: String| TlsError::Roots { path: path.to_owned(), reason };
    let pem = fs::read(path).map_err(|reason| error(reason.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|reason| error(reason.to_string()))?;
        roots.add(certificate).map_err(|reason| error(reason.to_string()))?;
    }
    Ok(roots)
}

/// Checks the chain when it has one, never the host name.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is checked before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_libpq_s() {
        assert_eq!("verify-full".parse::<SslMode>().unwrap(), SslMode::VerifyFull);
        assert!("allow".parse::<SslMode>().unwrap_err().to_string().contains("prefer"));
    }

    #[test]
    fn verification_without_roots_is_refused() {
        let missing = Path::new("/nonexistent/root.crt");
        let error = client_config(SslMode::VerifyFull, Some(missing)).unwrap_err().to_string();
        assert!(
            error.contains("/nonexistent/root.crt") && error.contains("sslrootcert"),
            "{error}"
        );
        assert!(client_config(SslMode::Require, Some(missing)).unwrap().is_some());
        assert!(client_config(SslMode::Disable, None).unwrap().is_none());
    }
}
