package io.lakeward;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.rest.HTTPHeaders;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.ImmutableHTTPHeader;
import org.apache.iceberg.rest.ImmutableHTTPRequest;
import org.apache.iceberg.rest.RESTClient;
import org.apache.iceberg.rest.auth.AuthManager;
import org.apache.iceberg.rest.auth.AuthSession;
import org.apache.iceberg.rest.auth.OAuth2Util;
import org.apache.iceberg.rest.responses.OAuthTokenResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.util.JsonUtil;

/**
 * The login of a REST catalog, from a file that is read again when it changes. The twin in Python is
 * lakeward.connectors.iceberg.catalogs.login_manager.
 *
 * A Spark conf is shown in user interfaces and event logs; it has the path of the file only. Iceberg's own OAuth2 manager
 * takes the login once, and gives up for ever after a few renewals that failed. See docs/adr/0091.
 */
public class LoginFile implements AuthManager {
    private static final String FILE = "rest.auth.lakeward.file";

    private static volatile long forgottenAt = System.nanoTime();

    private String place;

    public LoginFile(String name) {}

    /** Iceberg shows a manager no answer. Who sees one that refuses a token calls this: each session fetches another. */
    public static void forget() {
        forgottenAt = System.nanoTime();
    }

    public AuthSession initSession(RESTClient client, Map properties) {
        place = String.valueOf(properties.get(FILE));
        return new Session(client, place);
    }

    /** The file of initSession: the answer of a server to that session's request cannot name another one. */
    public AuthSession catalogSession(RESTClient client, Map properties) {
        return new Session(client, place == null ? String.valueOf(properties.get(FILE)) : place);
    }

    /** Of the client that renews vended credentials. */
    public AuthSession tableSession(RESTClient client, Map properties) {
        return catalogSession(client, properties);
    }

    /** A server may give a table a token of its own. */
    public AuthSession tableSession(TableIdentifier table, Map properties, AuthSession parent) {
        String token = (String) properties.get("token");
        return token == null ? parent : new Fixed("Bearer " + token);
    }

    public void close() {}

    static HTTPRequest with(HTTPRequest request, String authorization) {
        ImmutableHTTPHeader header = ImmutableHTTPHeader.builder().name("Authorization").value(authorization).build();
        HTTPHeaders headers = request.headers().putIfAbsent(header);
        return ImmutableHTTPRequest.builder().from(request).headers(headers).build();
    }

    /** One token, for ever. */
    static class Fixed implements AuthSession {
        private final String authorization;

        Fixed(String authorization) {
            this.authorization = authorization;
        }

        public HTTPRequest authenticate(HTTPRequest request) {
            return with(request, authorization);
        }

        public void close() {}
    }

    /** The login as the file has it now. */
    static class Session implements AuthSession {
        /** A token is fetched again after this time at the latest: a server may forget its tokens before they expire. */
        static long longestS = 300L; // not final for the tests
        /** How long before its end a token is renewed, but never more than a tenth of its life. */
        private static final long MARGIN_S = 60L;
        /** The pause after a renewal that failed while the token is still valid. */
        private static final long PAUSE_S = 5L;
        private static final long SECOND = 1000000000L;

        private final RESTClient client;
        private final Path file;
        private final String place;
        private String readAs = "";
        private Map login = new HashMap();
        private String token;
        private long fetchedAt;
        private long renewAt;
        private long endsAt;

        Session(RESTClient client, String place) {
            // The request for a token needs none.
            this.client = client.withAuthSession(AuthSession.EMPTY);
            this.place = place;
            this.file = Paths.get(place, new String[0]);
        }

        public HTTPRequest authenticate(HTTPRequest request) {
            return with(request, authorization());
        }

        public void close() {}

        private synchronized String authorization() {
            read();
            if (login.containsKey("rest.auth.basic.username")) {
                String pair = login.get("rest.auth.basic.username") + ":" + login.get("rest.auth.basic.password");
                return "Basic " + Base64.getEncoder().encodeToString(pair.getBytes(StandardCharsets.UTF_8));
            }
            if (login.containsKey("token")) {
                return "Bearer " + login.get("token");
            }
            long now = System.nanoTime();
            if (token != null && fetchedAt - forgottenAt < 0) {
                token = null;
            }
            if (token == null || now - renewAt >= 0) {
                renew(now);
            }
            return "Bearer " + token;
        }

        private void renew(long now) {
            OAuthTokenResponse answer;
            try {
                answer = OAuth2Util.fetchToken(client, new HashMap(), text("credential", ""), text("scope", "catalog"),
                    text("oauth2-server-uri", "v1/oauth/tokens"), OAuth2Util.buildOptionalParam(login));
            } catch (RuntimeException failed) {
                if (token == null || now - endsAt >= 0) {
                    // Of OAuth2's errors Iceberg calls invalid_client alone a refusal; others refuse a wrong secret by
                    // unauthorized_client or invalid_grant.
                    throw failed instanceof BadRequestException
                        ? new NotAuthorizedException(failed, "%s", new Object[] {failed.getMessage()})
                        : failed;
                }
                renewAt = now + PAUSE_S * SECOND;
                return;
            }
            Integer given = answer.expiresInSeconds();
            long life = given == null ? longestS : given.longValue();
            token = answer.token();
            fetchedAt = now;
            endsAt = now + life * SECOND;
            long early = Math.min(MARGIN_S * SECOND, life * SECOND / 10);
            renewAt = now + Math.min(longestS * SECOND, life * SECOND - early);
        }

        private String text(String key, String otherwise) {
            Object value = login.get(key);
            return value == null ? otherwise : (String) value;
        }

        /** Read the file if it changed. Messages never have a value of it. */
        private void read() {
            String now;
            try {
                BasicFileAttributes at = Files.readAttributes(file, BasicFileAttributes.class, new LinkOption[0]);
                now = at.lastModifiedTime() + " " + at.size() + " " + at.fileKey();
            } catch (IOException absent) {
                readAs = "";
                throw refusal("it cannot be read");
            }
            if (now.equals(readAs)) {
                return;
            }
            Map found = new HashMap();
            try {
                JsonNode node = JsonUtil.mapper().readTree(Files.readAllBytes(file));
                for (Iterator names = node.fieldNames(); names.hasNext();) {
                    String name = (String) names.next();
                    found.put(name, node.get(name).asText());
                }
            } catch (IOException damaged) {
                throw refusal("it is not JSON");
            }
            boolean basic = found.containsKey("rest.auth.basic.username") && found.containsKey("rest.auth.basic.password");
            if (!basic && !found.containsKey("token") && !found.containsKey("credential")) {
                throw refusal("it has neither token, nor credential, nor a user with a password");
            }
            login = found;
            token = null;
            readAs = now;
        }

        private RuntimeException refusal(String why) {
            return new NotAuthorizedException("The login in %s cannot be used: %s", new Object[] {place, why});
        }
    }
}
