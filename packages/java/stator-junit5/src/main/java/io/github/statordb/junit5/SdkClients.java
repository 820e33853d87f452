package io.github.statordb.junit5;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.Arrays;

/**
 * Makes clients of the AWS SDK for Java 2. The SDK is found by reflection, so that tests without it need not have it.
 */
final class SdkClients {
    private static final String SDK = "software.amazon.awssdk.";
    private static final String ENHANCED = SDK + "enhanced.dynamodb.DynamoDbEnhanced";

    private SdkClients() {}

    /** Reports whether a type is a client that create can make. */
    static boolean isClient(Class<?> type) {
        String name = type.getName();
        return name.equals(ENHANCED + "Client") || name.equals(ENHANCED + "AsyncClient")
                || name.startsWith(SDK + "services.dynamodb.") && name.endsWith("Client") && hasBuilder(type);
    }

    private static boolean hasBuilder(Class<?> type) {
        return Arrays.stream(type.getMethods()).anyMatch(m -> m.getName().equals("builder") && m.getParameterCount() == 0);
    }

    static Object create(Class<?> type, StatorEndpoint database) {
        if (!isClient(type)) {
            throw new IllegalArgumentException(type.getName() + " is not a client of DynamoDB of the AWS SDK for Java 2");
        }
        try {
            Object builder = type.getMethod("builder").invoke(null);
            if (type.getName().startsWith(ENHANCED)) {
                String kind = type.getName().endsWith("AsyncClient") ? "DynamoDbAsyncClient" : "DynamoDbClient";
                Class<?> plain = load(type, SDK + "services.dynamodb." + kind);
                setter(load(type, type.getName() + "$Builder"), "dynamoDbClient", plain).invoke(builder, database.client(plain));
                return load(type, type.getName() + "$Builder").getMethod("build").invoke(builder);
            }
            return load(type, SDK + "utils.builder.SdkBuilder").getMethod("build").invoke(configure(builder, database.uri()));
        } catch (InvocationTargetException e) {
            throw new IllegalStateException("make a " + type.getName() + ": " + e.getCause(), e.getCause());
        } catch (ReflectiveOperationException e) {
            throw incompatible(type, e);
        }
    }

    /** Gives a builder of a client the endpoint, the region and credentials. */
    static <B> B configure(B builder, URI endpoint) {
        Class<?> type = builder.getClass();
        try {
            Class<?> credentials = load(type, SDK + "auth.credentials.AwsCredentials");
            Class<?> provider = load(type, SDK + "auth.credentials.AwsCredentialsProvider");
            Class<?> region = load(type, SDK + "regions.Region");
            Class<?> clientBuilder = load(type, SDK + "awscore.client.builder.AwsClientBuilder");
            Object key = load(type, SDK + "auth.credentials.AwsBasicCredentials")
                    .getMethod("create", String.class, String.class).invoke(null, StatorEndpoint.ACCESS_KEY, StatorEndpoint.SECRET_KEY);
            Object keys = load(type, SDK + "auth.credentials.StaticCredentialsProvider").getMethod("create", credentials).invoke(null, key);
            setter(load(type, SDK + "core.client.builder.SdkClientBuilder"), "endpointOverride", URI.class).invoke(builder, endpoint);
            setter(clientBuilder, "region", region)
                    .invoke(builder, region.getMethod("of", String.class).invoke(null, StatorEndpoint.REGION));
            setter(clientBuilder, "credentialsProvider", provider).invoke(builder, keys);
            return builder;
        } catch (InvocationTargetException e) {
            throw new IllegalStateException("configure a " + type.getName() + ": " + e.getCause(), e.getCause());
        } catch (ReflectiveOperationException e) {
            throw incompatible(type, e);
        }
    }

    private static IllegalStateException incompatible(Class<?> type, ReflectiveOperationException e) {
        return new IllegalStateException(type.getName() + " is not as in the AWS SDK for Java 2 that stator knows (" + e
                + "); build the client by hand with StatorEndpoint.uri()", e);
    }

    private static Class<?> load(Class<?> near, String name) throws ClassNotFoundException {
        return Class.forName(name, true, near.getClassLoader());
    }

    private static Method setter(Class<?> type, String name, Class<?> parameter) throws NoSuchMethodException {
        return type.getMethod(name, parameter);
    }
}
