package platform.client;

import com.nimbusds.jose.JOSEException;
import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.JWSHeader;
import com.nimbusds.jose.crypto.ECDSASigner;
import com.nimbusds.jose.jwk.Curve;
import com.nimbusds.jose.jwk.ECKey;
import com.nimbusds.jose.jwk.gen.ECKeyGenerator;
import com.nimbusds.jose.util.Base64URL;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.SignedJWT;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.util.Date;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/** A key that tokens are bound to (RFC 9449), and the nonces that servers want in its proofs. ES256. */
public final class DpopKey {
  private static final JOSEObjectType TYPE = new JOSEObjectType("dpop+jwt");

  private final ECKey publicKey;
  private final ECDSASigner signer;
  /** The newest nonce of each server (RFC 9449 section 8), by origin. */
  private final Map<String, String> nonces = new ConcurrentHashMap<>();

  private DpopKey(ECKey key) throws JOSEException {
    this.publicKey = key.toPublicJWK();
    this.signer = new ECDSASigner(key);
  }

  /**
   * A new key, known to this process alone.
   *
   * @return the key
   */
  public static DpopKey generate() {
    try {
      return new DpopKey(new ECKeyGenerator(Curve.P_256).generate());
    } catch (JOSEException unsupported) {
      throw new IllegalStateException("this Java knows no P-256", unsupported);
    }
  }

  /**
   * A key that is kept elsewhere.
   *
   * @param pair on P-256
   * @return the key
   * @throws IllegalArgumentException where the pair is of another kind
   */
  public static DpopKey of(KeyPair pair) {
    if (!(pair.getPublic() instanceof ECPublicKey publicKey) || !(pair.getPrivate() instanceof ECPrivateKey privateKey))
      throw new IllegalArgumentException("the key is not on P-256");
    try {
      return new DpopKey(new ECKey.Builder(Curve.P_256, publicKey).privateKey(privateKey).build());
    } catch (JOSEException | IllegalStateException otherCurve) {
      throw new IllegalArgumentException("the key is not on P-256", otherCurve);
    }
  }

  /** A proof for one request (RFC 9449 section 4.2), with the newest nonce of its server. */
  String proof(String method, URI target, Optional<AccessToken> token) {
    JWTClaimsSet.Builder claims =
        new JWTClaimsSet.Builder()
            .jwtID(UUID.randomUUID().toString())
            .issueTime(new Date())
            .claim("htm", method)
            .claim("htu", target.toString());
    token.ifPresent(bound -> claims.claim("ath", hashOf(bound.value())));
    String nonce = nonces.get(originOf(target));
    if (nonce != null) claims.claim("nonce", nonce);
    SignedJWT proof = new SignedJWT(new JWSHeader.Builder(JWSAlgorithm.ES256).type(TYPE).jwk(publicKey).build(), claims.build());
    try {
      proof.sign(signer);
    } catch (JOSEException unsigned) {
      throw new IllegalStateException("the DPoP key cannot sign", unsigned);
    }
    return proof.serialize();
  }

  /** Keeps the nonce that a server wants from now on. */
  void useNonce(URI target, String nonce) {
    nonces.put(originOf(target), nonce);
  }

  private static String hashOf(String token) {
    return Base64URL.encode(Hashes.sha256(token.getBytes(StandardCharsets.US_ASCII))).toString();
  }

  private static String originOf(URI target) {
    return target.getScheme() + "://" + target.getAuthority();
  }
}
