package io.github.statordb.junit5;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.junit.platform.commons.support.ReflectionSupport;

/** What database tests get. */
final class Settings {
    /** Equal for tests that begin with the same; null if they begin with nothing. */
    Object baseKey;
    StatorBase base;
    StatorScope scope = StatorScope.TEST;
    boolean clock;
    String clockAt = "";
    String faultsFile = "";
    List<Fault> faults = List.of();
    long faultSeed = -1;
    boolean allowFaults;
    List<String> args = List.of();

    static Settings of(StatorTest annotation) {
        Settings s = new Settings();
        if (annotation.base() != StatorBase.class) {
            s.baseKey = annotation.base();
            s.base = database -> ReflectionSupport.newInstance(annotation.base()).load(database);
        }
        s.scope = annotation.scope();
        s.clock = annotation.clock() || !annotation.clockAt().isEmpty();
        s.clockAt = annotation.clockAt();
        s.faultsFile = annotation.faults();
        s.allowFaults = annotation.allowFaults() || !annotation.faults().isEmpty();
        s.args = List.of(annotation.args());
        return s;
    }

    Settings copy() {
        Settings s = new Settings();
        s.baseKey = baseKey;
        s.base = base;
        s.scope = scope;
        s.clock = clock;
        s.clockAt = clockAt;
        s.faultsFile = faultsFile;
        s.faults = faults;
        s.faultSeed = faultSeed;
        s.allowFaults = allowFaults;
        s.args = args;
        return s;
    }

    /** Reports whether the database is a server and no fork: forks have the clock of their server, and no faults. */
    boolean needsServer() {
        return clock || allowFaults;
    }

    List<String> arguments() {
        List<String> all = new ArrayList<>(args);
        if (clock) {
            all.add(clockAt.isEmpty() ? "--test-clock" : "--test-clock=" + clockAt);
        }
        if (allowFaults) {
            all.add("--allow-faults");
        }
        return all;
    }

    void injectFaults(StatorEndpoint server, Class<?> test) {
        if (!faultsFile.isEmpty()) {
            server.faults().setPlan(readFaults(test));
        } else if (!faults.isEmpty() && faultSeed >= 0) {
            server.faults().set(faultSeed, faults.toArray(new Fault[0]));
        } else if (!faults.isEmpty()) {
            server.faults().set(faults.toArray(new Fault[0]));
        }
    }

    private String readFaults(Class<?> test) {
        Path file = Path.of(faultsFile);
        try (InputStream near = test.getResourceAsStream(faultsFile); InputStream top = test.getResourceAsStream("/" + faultsFile)) {
            InputStream found = near == null ? top : near;
            if (found != null) {
                return new String(found.readAllBytes(), StandardCharsets.UTF_8);
            }
            if (Files.exists(file)) {
                return Files.readString(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("read the faults of " + faultsFile + ": " + e, e);
        }
        throw new IllegalStateException("there are no faults " + faultsFile + ": tried the class path near " + test.getName()
                + ", the class path, and the file " + file.toAbsolutePath());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Settings && key().equals(((Settings) other).key());
    }

    @Override
    public int hashCode() {
        return key().hashCode();
    }

    private List<Object> key() {
        return List.of(Objects.requireNonNullElse(baseKey, ""), scope, arguments(), faultsFile, faults, faultSeed);
    }
}
