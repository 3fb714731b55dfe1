//! TLS as libpq's `sslmode` means it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::client_certificate::ClientCertificate;

/// Whether to use TLS and what to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Never.
    Disable,
    /// Only where the server refuses the connection without it.
    Allow,
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
    /// Not one of libpq's modes.
    #[error(
        "sslmode `{0}` is not known; use disable, allow, prefer, require, verify-ca or verify-full"
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
    /// The client's certificate or key cannot be used.
    #[error("cannot use {path} as the client's certificate or key (sslcert, sslkey): {reason}", path = .path.display())]
    ClientCertificate {
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
            "allow" => Ok(Self::Allow),
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
    certificate: Option<ClientCertificate>,
) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    if mode == SslMode::Disable {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let verifier = Arc::new(verifier(mode, root_file, provider)?);
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let config = match certificate {
        Some(ClientCertificate { chain, key }) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

fn verifier(
    mode: SslMode,
    root_file: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Verifier, TlsError> {
    let algorithms = provider.signature_verification_algorithms;
    let default_file = env::home_dir().unwrap_or_default().join(".postgresql").join("root.crt");
    let file = root_file.unwrap_or(&default_file);
    let check_name = mode == SslMode::VerifyFull;
    let must_verify = matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull);
    if must_verify && !file.exists() {
        return Err(TlsError::NoRoots(file.to_owned()));
    }
    // As in libpq, `require` verifies the chain when root certificates are there.
    let verifies = must_verify || (mode == SslMode::Require && file.exists());
    let trust = if verifies { Some(Trust::read(file, provider)?) } else { None };
    Ok(Verifier { trust, check_name, algorithms })
}

/// What the user trusts.
#[derive(Debug)]
struct Trust {
    certificates: Vec<CertificateDer<'static>>,
    chain: Arc<WebPkiServerVerifier>,
}

impl Trust {
    fn read(path: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let error = |reason: String| TlsError::Roots { path: path.to_owned(), reason };
        let pem = fs::read(path).map_err(|reason| error(reason.to_string()))?;
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|reason| error(reason.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|reason| error(reason.to_string()))?;
        }
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|reason| error(reason.to_string()))?;
        Ok(Self { certificates, chain })
    }
}

/// Checks what `sslmode` asks for.
#[derive(Debug)]
struct Verifier {
    /// Absent: any certificate will do.
    trust: Option<Trust>,
    check_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(Trust { certificates, chain }) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        // A self-signed server certificate may itself be the trusted one, which WebPKI refuses.
        if !certificates.contains(end_entity) {
            let chain = chain.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            match chain {
                // The chain is checked before the name, and the name below.
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                ))
                | Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        if self.check_name {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
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
        assert!("always".parse::<SslMode>().unwrap_err().to_string().contains("prefer"));
    }

    #[test]
    fn verification_without_roots_is_refused() {
        let missing = Path::new("/nonexistent/root.crt");
        let error =
            client_config(SslMode::VerifyFull, Some(missing), None).unwrap_err().to_string();
        assert!(
            error.contains("/nonexistent/root.crt") && error.contains("sslrootcert"),
            "{error}"
        );
        assert!(client_config(SslMode::Require, Some(missing), None).unwrap().is_some());
        assert!(client_config(SslMode::Disable, None, None).unwrap().is_none());
    }
}
