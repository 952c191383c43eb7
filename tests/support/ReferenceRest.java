package org.apache.iceberg.rest; // what makes a repeated request safe is not public

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.math.BigInteger;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.NamespaceNotEmptyException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.UnprocessableEntityException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.credentials.ImmutableCredential;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.RenameTableRequest;
import org.apache.iceberg.rest.requests.UpdateNamespacePropertiesRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.ErrorResponseParser;
import org.apache.iceberg.rest.responses.ImmutableLoadCredentialsResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;

/**
 * An Iceberg REST catalog of Iceberg's own handlers, before its catalog in memory. It vends credentials of each table that
 * the test's object store reads: the name of a key has the time of its end and the folder that it opens.
 *
 * Usage: ReferenceRest FILE, with the properties of the catalog, and of the server below `server.`.
 */
public class ReferenceRest {
    private static final List<Endpoint> ENDPOINTS = List.of(
        Endpoint.V1_LIST_NAMESPACES, Endpoint.V1_LOAD_NAMESPACE, Endpoint.V1_NAMESPACE_EXISTS,
        Endpoint.V1_CREATE_NAMESPACE, Endpoint.V1_UPDATE_NAMESPACE, Endpoint.V1_DELETE_NAMESPACE, Endpoint.V1_LIST_TABLES,
        Endpoint.V1_LOAD_TABLE, Endpoint.V1_TABLE_EXISTS, Endpoint.V1_CREATE_TABLE, Endpoint.V1_UPDATE_TABLE,
        Endpoint.V1_DELETE_TABLE, Endpoint.V1_RENAME_TABLE, Endpoint.V1_REGISTER_TABLE, Endpoint.V1_REPORT_METRICS,
        Endpoint.V1_TABLE_CREDENTIALS);

    private final InMemoryCatalog catalog = new InMemoryCatalog();
    private final Map<String, String> overrides = new HashMap<>();
    private final long lifeMs;

    ReferenceRest(Map<String, String> given) throws ReflectiveOperationException {
        Map<String, String> properties = new HashMap<>();
        given.forEach((name, value) -> {
            if (name.startsWith("server.override.")) {
                overrides.put(name.substring("server.override.".length()), value);
            } else if (!name.startsWith("server.")) {
                properties.put(name, value);
            }
        });
        lifeMs = Long.parseLong(given.get("server.life-ms"));
        catalog.initialize("reference", properties);
        Field io = InMemoryCatalog.class.getDeclaredField("io"); // which is in memory, too
        io.setAccessible(true);
        io.set(catalog, CatalogUtil.loadFileIO("org.apache.iceberg.io.ResolvingFileIO", properties, new Configuration()));
    }

    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        Properties read = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            read.load(file);
        }
        Map<String, String> given = new HashMap<>();
        read.stringPropertyNames().forEach(name -> given.put(name, read.getProperty(name)));
        CatalogHandlers.setIdempotencyLifetimeFromIso("PT30M");
        ReferenceRest here = new ReferenceRest(given);
        int port = Integer.parseInt(given.get("server.port"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 50);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/v1/", here::handle);
        server.start();
    }

    private void handle(HttpExchange exchange) throws IOException {
        int status = 200;
        String text = "";
        try {
            Object answer = answer(exchange);
            if (answer == null) {
                status = 204;
            } else {
                text = RESTObjectMapper.mapper().writeValueAsString(answer);
            }
        } catch (Exception error) {
            status = status(error);
            ErrorResponse body = ErrorResponse.builder().responseCode(status).withType(error.getClass().getSimpleName())
                .withMessage(String.valueOf(error.getMessage())).build();
            text = ErrorResponseParser.toJson(body);
        }
        boolean head = exchange.getRequestMethod().equals("HEAD");
        byte[] bytes = head || status == 204 ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    private static int status(Exception error) {
        if (error instanceof NoSuchTableException || error instanceof NoSuchNamespaceException) {
            return 404;
        }
        if (error instanceof AlreadyExistsException || error instanceof CommitFailedException
            || error instanceof NamespaceNotEmptyException) {
            return 409;
        }
        if (error instanceof UnprocessableEntityException) {
            return 422;
        }
        if (error instanceof UnsupportedOperationException) {
            return 406;
        }
        if (error instanceof ValidationException || error instanceof IllegalArgumentException) {
            return 400;
        }
        return error instanceof CommitStateUnknownException ? 504 : 500;
    }

    /** The answer; null: it has no body. */
    private Object answer(HttpExchange exchange) throws IOException {
        String method = exchange.getRequestMethod();
        URI uri = exchange.getRequestURI();
        String[] parts = uri.getRawPath().substring("/v1/".length()).split("/");
        Map<String, String> query = uri.getRawQuery() == null ? Map.of() : RESTUtil.decodeFormData(uri.getRawQuery());
        String route = method + " " + parts[0] + " " + parts.length;
        switch (route) {
            case "GET config 1":
                return ConfigResponse.builder().withOverrides(overrides).withEndpoints(ENDPOINTS)
                    .withIdempotencyKeyLifetime("PT30M").build();
            case "GET namespaces 1":
                String parent = query.get("parent");
                Namespace above = parent == null ? Namespace.empty() : RESTUtil.namespaceFromQueryParam(parent);
                return CatalogHandlers.listNamespaces(catalog, above);
            case "POST namespaces 1":
                CreateNamespaceRequest made = body(exchange, CreateNamespaceRequest.class);
                return CatalogHandlers.createNamespace(catalog, made);
            case "POST tables 2":
                CatalogHandlers.renameTable(catalog, body(exchange, RenameTableRequest.class));
                return null;
            default:
                if (!parts[0].equals("namespaces") || parts.length < 2) {
                    throw new UnsupportedOperationException(route);
                }
        }
        Namespace namespace = RESTUtil.decodeNamespaceAsPathSegment(parts[1], "%1F");
        return parts.length == 2
            ? ofNamespace(exchange, namespace)
            : parts.length == 3
            ? inNamespace(exchange, namespace, parts[2])
            : ofTable(exchange, TableIdentifier.of(namespace, RESTUtil.decodePathSegment(parts[3])), parts, query);
    }

    private Object ofNamespace(HttpExchange exchange, Namespace namespace) {
        switch (exchange.getRequestMethod()) {
            case "DELETE":
                CatalogHandlers.dropNamespace(catalog, namespace);
                return null;
            case "HEAD":
                CatalogHandlers.namespaceExists(catalog, namespace);
                return null;
            default:
                return CatalogHandlers.loadNamespace(catalog, namespace);
        }
    }

    private Object inNamespace(HttpExchange exchange, Namespace namespace, String what) throws IOException {
        boolean read = exchange.getRequestMethod().equals("GET");
        switch (what) {
            case "properties":
                UpdateNamespacePropertiesRequest changed = body(exchange, UpdateNamespacePropertiesRequest.class);
                return CatalogHandlers.updateNamespaceProperties(catalog, namespace, changed);
            case "register":
                RegisterTableRequest found = body(exchange, RegisterTableRequest.class);
                return vended(exchange, TableIdentifier.of(namespace, found.name()), safe(exchange, () ->
                    CatalogHandlers.registerTable(catalog, namespace, found)));
            case "tables":
                if (read) {
                    return CatalogHandlers.listTables(catalog, namespace);
                }
                CreateTableRequest made = body(exchange, CreateTableRequest.class);
                return vended(exchange, TableIdentifier.of(namespace, made.name()), safe(exchange, () ->
                    made.stageCreate()
                    ? CatalogHandlers.stageTableCreate(catalog, namespace, made)
                    : CatalogHandlers.createTable(catalog, namespace, made)));
            default:
                throw new UnsupportedOperationException(what);
        }
    }

    private Object ofTable(HttpExchange exchange, TableIdentifier table, String[] parts, Map<String, String> query)
        throws IOException {
        String method = exchange.getRequestMethod();
        if (parts.length == 5 && parts[4].equals("credentials")) {
            LoadTableResponse loaded = CatalogHandlers.loadTable(catalog, table, RESTCatalogProperties.SnapshotMode.REFS);
            Map<String, String> config = credentials(table, loaded.tableMetadata().location());
            return ImmutableLoadCredentialsResponse.builder().addCredentials(ImmutableCredential.builder()
                .prefix(loaded.tableMetadata().location()).putAllConfig(config).build()).build();
        }
        if (parts.length == 5 && parts[4].equals("metrics")) {
            return null;
        }
        switch (method) {
            case "GET":
                boolean refs = "refs".equals(query.get("snapshots"));
                return vended(exchange, table, CatalogHandlers.loadTable(catalog, table,
                    refs ? RESTCatalogProperties.SnapshotMode.REFS : RESTCatalogProperties.SnapshotMode.ALL));
            case "HEAD":
                CatalogHandlers.tableExists(catalog, table);
                return null;
            case "DELETE":
                if (Boolean.parseBoolean(query.get("purgeRequested"))) {
                    CatalogHandlers.purgeTable(catalog, table);
                } else {
                    CatalogHandlers.dropTable(catalog, table);
                }
                return null;
            default:
                UpdateTableRequest changed = body(exchange, UpdateTableRequest.class);
                return vended(exchange, table, safe(exchange, () -> CatalogHandlers.updateTable(catalog, table, changed)));
        }
    }

    /** What a request does, once for each key of a client that repeats it. */
    private static LoadTableResponse safe(HttpExchange exchange, Supplier<LoadTableResponse> act) {
        String key = exchange.getRequestHeaders().getFirst(RESTUtil.IDEMPOTENCY_KEY_HEADER);
        if (key == null) {
            return act.get();
        }
        HTTPHeaders headers = HTTPHeaders.of(Map.of(RESTUtil.IDEMPOTENCY_KEY_HEADER, key));
        HTTPRequest request = ImmutableHTTPRequest.builder().baseUri(URI.create("http://127.0.0.1/")).path("v1")
            .method(HTTPRequest.HTTPMethod.POST).headers(headers).build();
        return CatalogHandlers.withIdempotency(request, act);
    }

    /** With credentials of the table, for a client that asks for them. */
    private LoadTableResponse vended(HttpExchange exchange, TableIdentifier table, LoadTableResponse loaded) {
        List<String> asked = exchange.getRequestHeaders().getOrDefault("X-Iceberg-Access-Delegation", new ArrayList<>());
        if (!String.join(",", asked).contains("vended-credentials")) {
            return loaded;
        }
        Map<String, String> config = credentials(table, loaded.tableMetadata().location());
        return LoadTableResponse.builder().withTableMetadata(loaded.tableMetadata()).addAllConfig(loaded.config())
            .addAllConfig(config).addCredential(ImmutableCredential.builder()
                .prefix(loaded.tableMetadata().location()).putAllConfig(config).build()).build();
    }

    private Map<String, String> credentials(TableIdentifier table, String location) {
        long ends = System.currentTimeMillis() + lifeMs;
        byte[] folder = location.replaceFirst("s3://", "/").getBytes(StandardCharsets.UTF_8);
        String opened = String.format("%x", new BigInteger(1, folder));
        String endpoint = "v1/namespaces/" + RESTUtil.encodeNamespaceAsPathSegment(table.namespace(), "%1F") + "/tables/"
            + RESTUtil.encodePathSegment(table.name()) + "/credentials";
        return Map.of("s3.access-key-id", "VENDED" + ends + "X" + opened,
            "s3.secret-access-key", UUID.randomUUID().toString(),
            "s3.session-token", UUID.randomUUID().toString(),
            "s3.session-token-expires-at-ms", String.valueOf(ends),
            "client.refresh-credentials-endpoint", endpoint);
    }

    private static <T> T body(HttpExchange exchange, Class<T> type) throws IOException {
        return RESTObjectMapper.mapper().readValue(exchange.getRequestBody().readAllBytes(), type);
    }
}
