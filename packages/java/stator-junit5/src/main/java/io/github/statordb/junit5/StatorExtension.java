package io.github.statordb.junit5;

import java.lang.reflect.Constructor;
import java.net.URI;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * The extension of {@link StatorTest}, for {@code @RegisterExtension} with settings in code.
 *
 * <pre>{@code
 * @RegisterExtension
 * static final StatorExtension stator = StatorExtension.builder()
 *         .base(database -> database.send("CreateTable", ORDERS))
 *         .build();
 *
 * @Test
 * void order(StatorEndpoint database) { … }
 * }</pre>
 */
public final class StatorExtension implements ParameterResolver, AfterTestExecutionCallback {
    private final Settings settings; // null for those of the annotation

    /** Makes the extension of {@link StatorTest}. */
    public StatorExtension() {
        this(null);
    }

    private StatorExtension(Settings settings) {
        this.settings = settings;
    }

    /**
     * Returns a builder of an extension.
     *
     * @return the builder
     */
    public static Builder builder() {
        return new Builder();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == StatorEndpoint.class || type == StatorClock.class || type == StatorFaults.class || type == URI.class
                || SdkClients.isClient(type);
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Settings s = settingsOf(context);
        if (parameter.getDeclaringExecutable() instanceof Constructor && s.scope == StatorScope.TEST) {
            throw new ParameterResolutionException("a constructor has no database of a test; take it as a parameter of the test or of a"
                    + " method with @BeforeEach, or use StatorScope.CLASS");
        }
        Class<?> type = parameter.getParameter().getType();
        if (type == StatorClock.class && !s.clock) {
            throw new ParameterResolutionException("the clock of this server cannot be changed: set clock = true in @StatorTest,"
                    + " or clock() in StatorExtension.builder()");
        }
        if (type == StatorFaults.class && !s.allowFaults) {
            throw new ParameterResolutionException("this server injects no faults: set allowFaults = true or faults in @StatorTest,"
                    + " or allowFaults() in StatorExtension.builder()");
        }
        StatorEndpoint database = databaseOf(context, s).endpoint;
        if (type == StatorEndpoint.class) {
            return database;
        }
        if (type == URI.class) {
            return database.uri();
        }
        if (type == StatorClock.class) {
            return database.clock();
        }
        return type == StatorFaults.class ? database.faults() : database.client(type);
    }

    /** Verifies the budgets of a test, and gives the error of one that failed the faults that it met. */
    @Override
    public void afterTestExecution(ExtensionContext context) {
        Settings s = settingsOf(context);
        Database database;
        try {
            database = nearest(context, s);
        } catch (RuntimeException e) {
            return; // it could not be made, which is the error of the test
        }
        if (database == null) {
            return; // the test has no parameter with it
        }
        if (s.allowFaults) {
            context.getExecutionException().ifPresent(e -> e.addSuppressed(new FaultTimeline(database.endpoint.faults().toString())));
        }
        database.endpoint.runChecks();
    }

    /** The faults that a failed test met, as a part of its error. */
    private static final class FaultTimeline extends Throwable {
        private static final long serialVersionUID = 1;

        FaultTimeline(String text) {
            super(text, null, false, false);
        }
    }

    private Settings settingsOf(ExtensionContext context) {
        if (settings != null) {
            return settings;
        }
        for (Optional<ExtensionContext> c = Optional.of(context); c.isPresent(); c = c.get().getParent()) {
            Optional<StatorTest> found = AnnotationSupport.findAnnotation(c.get().getElement(), StatorTest.class);
            if (found.isPresent()) {
                return Settings.of(found.get());
            }
        }
        return new Settings(); // @ExtendWith(StatorExtension.class)
    }

    /** A database that JUnit closes with the store that it is in. */
    private static final class Database implements ExtensionContext.Store.CloseableResource {
        final StatorEndpoint endpoint;
        private final AutoCloseable owned;

        Database(StatorEndpoint endpoint, AutoCloseable owned) {
            this.endpoint = endpoint;
            this.owned = owned;
        }

        /** Allows budgets, which afterTestExecution verifies. */
        Database checked() {
            endpoint.checkedAtEnd();
            return this;
        }

        @Override
        public void close() throws Exception {
            owned.close();
        }
    }

    /** A server that JUnit stops at the end of all tests. */
    private static final class SharedServer implements ExtensionContext.Store.CloseableResource {
        final StatorServer server;

        SharedServer(List<String> args) {
            server = StatorServer.start(args.toArray(new String[0]));
        }

        @Override
        public void close() {
            server.close();
        }
    }

    private static ExtensionContext.Store store(ExtensionContext context, Settings s) {
        return context.getStore(ExtensionContext.Namespace.create(StatorExtension.class, s));
    }

    private static Database databaseOf(ExtensionContext context, Settings s) {
        boolean isTest = context.getTestMethod().isPresent();
        if (s.scope == StatorScope.CLASS) {
            ExtensionContext outermost = classOf(context);
            while (classOf(outermost.getParent().orElse(null)) != null) {
                outermost = classOf(outermost.getParent().get());
            }
            return computed(outermost, s, c -> s.needsServer() ? started(c, s) : forked(c, s).checked());
        }
        if (!isTest && s.needsServer()) {
            throw new ParameterResolutionException("each test has a server of its own, so that there is no database with which the tests of a"
                    + " class begin; store that with a base or in a method with @BeforeEach, or use StatorScope.CLASS");
        }
        return computed(context, s, c -> s.needsServer() ? started(c, s) : isTest ? forked(c, s).checked() : forked(c, s));
    }

    /** Returns the database of a context itself, which is made if there is none. */
    private static Database computed(ExtensionContext context, Settings s, Function<ExtensionContext, Database> make) {
        return store(context, s).getOrComputeIfAbsent(context.getUniqueId(), id -> make.apply(context), Database.class);
    }

    /** Returns the database of a context, or of the nearest context around it; null if there is none. */
    private static Database nearest(ExtensionContext context, Settings s) {
        for (Optional<ExtensionContext> c = Optional.of(context); c.isPresent(); c = c.get().getParent()) {
            Database found = store(context, s).get(c.get().getUniqueId(), Database.class);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** Returns the class of a context, or of the test that it is; null if it is above all classes. */
    private static ExtensionContext classOf(ExtensionContext context) {
        ExtensionContext c = context;
        while (c != null && c.getTestMethod().isPresent()) {
            c = c.getParent().orElse(null);
        }
        return c == null || c.getTestClass().isEmpty() ? null : c;
    }

    /** Returns a fork of the database of the class, or else of the base. */
    private static Database forked(ExtensionContext context, Settings s) {
        Database around = context.getParent().map(c -> nearest(c, s)).orElse(null);
        StatorEndpoint begin;
        if (around != null) {
            begin = around.endpoint;
        } else {
            StatorServer server = context.getRoot().getStore(ExtensionContext.Namespace.create(StatorExtension.class))
                    .getOrComputeIfAbsent(s.arguments(), SharedServer::new, SharedServer.class).server;
            begin = s.base == null ? server.endpoint() : server.base(s.baseKey, s.base);
        }
        StatorEndpoint fork = begin.fork();
        return new Database(fork, fork);
    }

    /** Returns the database of a server of its own. */
    private static Database started(ExtensionContext context, Settings s) {
        StatorServer server = StatorServer.start(s.arguments().toArray(new String[0]));
        try {
            if (s.base != null) {
                StatorServer.load(s.base, server.endpoint());
            }
            s.injectFaults(server.endpoint(), context.getRequiredTestClass());
            return new Database(server.endpoint(), server).checked();
        } catch (RuntimeException | Error e) {
            server.close();
            throw e;
        }
    }

    /** Builds an extension. Its methods are those of {@link StatorTest}. */
    public static final class Builder {
        private final Settings settings = new Settings();

        private Builder() {}

        /**
         * Stores what the tests begin with.
         *
         * @param base is called once for all tests of this object, or for each server of its own
         * @return this
         */
        public Builder base(StatorBase base) {
            settings.base = base;
            settings.baseKey = base;
            return this;
        }

        /**
         * Chooses which tests share a database.
         *
         * @param scope by default {@link StatorScope#TEST}
         * @return this
         */
        public Builder scope(StatorScope scope) {
            settings.scope = scope;
            return this;
        }

        /**
         * Gives each test a server whose clock it can change, from the present time on.
         *
         * @return this
         */
        public Builder clock() {
            settings.clock = true;
            return this;
        }

        /**
         * Gives each test a server whose clock it can change.
         *
         * @param begin the time at which the clock begins
         * @return this
         */
        public Builder clock(Instant begin) {
            settings.clock = true;
            settings.clockAt = begin.toString();
            return this;
        }

        /**
         * Gives each test a server that injects faults once the base is loaded.
         *
         * @param file a file in the form of docs/faults.md
         * @return this
         */
        public Builder faults(Path file) {
            settings.faultsFile = file.toString();
            return allowFaults();
        }

        /**
         * Gives each test a server that injects faults once the base is loaded, with the seed of the environment variable
         * {@code STATOR_FAULT_SEED}, or a random one.
         *
         * @param rules are tried in order
         * @return this
         */
        public Builder faults(Fault... rules) {
            settings.faults = List.of(rules);
            return allowFaults();
        }

        /**
         * Gives each test a server that injects faults once the base is loaded.
         *
         * @param seed chooses the requests that get a fault; it is not negative
         * @param rules are tried in order
         * @return this
         */
        public Builder faults(long seed, Fault... rules) {
            settings.faultSeed = seed;
            return faults(rules);
        }

        /**
         * Gives each test a server for which it sets faults.
         *
         * @return this
         */
        public Builder allowFaults() {
            settings.allowFaults = true;
            return this;
        }

        /**
         * Adds arguments of {@code stator serve}.
         *
         * @param args such as {@code --throttle}
         * @return this
         */
        public Builder args(String... args) {
            settings.args = List.of(args);
            return this;
        }

        /**
         * Returns the extension.
         *
         * @return an extension with these settings
         */
        public StatorExtension build() {
            return new StatorExtension(settings.copy());
        }
    }
}
