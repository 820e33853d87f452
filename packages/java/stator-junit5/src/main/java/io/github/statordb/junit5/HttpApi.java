package io.github.statordb.junit5;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Map;

/** Sends requests of the API. They are not signed, so the server must not verify signatures. */
final class HttpApi {
    /** Moves of the clock take a while: they return when all that is due has happened. */
    private static final Duration TIMEOUT = Duration.ofMinutes(10);

    private static final DateTimeFormatter DATE =
            DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);

    /** Proxies of the system are not for a server on this machine. */
    private static final HttpClient CLIENT = HttpClient.newBuilder()
            .proxy(ProxySelector.of(null))
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10))
            .build();

    private HttpApi() {}

    static Map<String, Object> send(URI database, String operation, String json) {
        String target = operation.contains(".") ? operation : "DynamoDB_20120810." + operation;
        HttpResponse<String> reply = exchange(request(database)
                .header("Content-Type", "application/x-amz-json-1.0")
                .header("X-Amz-Target", target)
                .POST(HttpRequest.BodyPublishers.ofString(json))
                .build(), operation);
        String text = reply.body();
        if (reply.statusCode() == 200) {
            return Json.parseObject(text.isEmpty() ? "{}" : text);
        }
        String code = "status " + reply.statusCode();
        String message = text;
        try {
            Map<String, Object> fault = Json.parseObject(text);
            String type = Json.string(fault.get("__type"));
            code = type.substring(type.lastIndexOf('#') + 1);
            message = Json.string(fault.getOrDefault("message", fault.get("Message")));
        } catch (IllegalArgumentException e) {
            // The text of the reply is the message.
        }
        throw new StatorException(operation, code, reply.statusCode(), message);
    }

    static String get(URI database, String path) {
        HttpResponse<String> reply = exchange(request(URI.create(base(database) + path)).GET().build(), "GET " + path);
        if (reply.statusCode() != 200) {
            throw new StatorException("GET " + path, "status " + reply.statusCode(), reply.statusCode(), reply.body());
        }
        return reply.body();
    }

    /** Returns the URI of a database without a slash at the end. */
    static String base(URI database) {
        String text = database.toString();
        return text.endsWith("/") ? text.substring(0, text.length() - 1) : text;
    }

    private static HttpRequest.Builder request(URI uri) {
        String now = DATE.format(Instant.now());
        return HttpRequest.newBuilder(uri).timeout(TIMEOUT)
                .header("X-Amz-Date", now)
                .header("Authorization", "AWS4-HMAC-SHA256 Credential=stator/" + now.substring(0, 8)
                        + "/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0");
    }

    private static HttpResponse<String> exchange(HttpRequest request, String what) {
        try {
            return CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new UncheckedIOException(what + " to " + request.uri() + ": " + e, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(what + " to " + request.uri() + " was interrupted", e);
        }
    }
}
