package io.github.statordb.junit5;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/** Finds the binary of stator. */
final class StatorBinary {
    /** The system property with the path of a binary. */
    static final String PROPERTY = "stator.binary";

    /** The environment variable with the path of a binary. */
    static final String VARIABLE = "STATOR_BINARY";

    private final Function<String, String> properties;
    private final Map<String, String> environment;
    private final ClassLoader loader;

    StatorBinary(Function<String, String> properties, Map<String, String> environment, ClassLoader loader) {
        this.properties = properties;
        this.environment = environment;
        this.loader = loader;
    }

    static Path find() {
        return new StatorBinary(System::getProperty, System.getenv(), StatorBinary.class.getClassLoader()).path();
    }

    Path path() {
        String property = properties.apply(PROPERTY);
        if (property != null && !property.isEmpty()) {
            return named(property, "the system property " + PROPERTY);
        }
        String variable = environment.get(VARIABLE);
        if (variable != null && !variable.isEmpty()) {
            return named(variable, "the environment variable " + VARIABLE);
        }
        String platform = platform();
        String resource = "META-INF/stator/" + platform + "/" + executable();
        URL packed = loader.getResource(resource);
        if (packed != null) {
            return unpacked(packed, loader.getResource(resource + ".sha256"));
        }
        for (String folder : environment.getOrDefault("PATH", "").split(File.pathSeparator)) {
            if (!folder.isEmpty() && isProgram(new File(folder, executable()))) {
                return new File(folder, executable()).toPath();
            }
        }
        throw new IllegalStateException("there is no stator to start. Tried the system property " + PROPERTY
                + ", the environment variable " + VARIABLE + ", " + resource + " on the class path, and the folders of PATH.\n"
                + "        Add the dependency io.github.stator-db:stator-binary-" + platform + " (scope test),"
                + " or set " + VARIABLE + " to the path of a stator");
    }

    /** Reports whether a file can be started. It takes any text as a path, also what no path can have. */
    private static boolean isProgram(File file) {
        return file.isFile() && file.canExecute();
    }

    private static Path named(String text, String where) {
        if (!isProgram(new File(text))) {
            throw new IllegalStateException(where + " is " + text + ", which is not a program that can be started."
                    + " Set it to the path of a stator, or remove it");
        }
        return Path.of(text);
    }

    private String executable() {
        return platform().startsWith("windows-") ? "stator.exe" : "stator";
    }

    /** Returns the platform by the names of Go, such as linux-amd64. */
    String platform() {
        String os = lower("os.name");
        String arch = lower("os.arch");
        return (os.startsWith("windows") ? "windows" : os.startsWith("mac") ? "darwin" : os.replaceAll("\\W", ""))
                + "-" + (arch.equals("x86_64") ? "amd64" : arch.equals("aarch64") ? "arm64" : arch);
    }

    private String lower(String property) {
        String value = properties.apply(property);
        return value == null ? "" : value.toLowerCase(Locale.ROOT);
    }

    /**
     * Returns the path of a binary of the class path, which is copied to the user's cache folder. The name of the copy has the
     * checksum, and the copy gets its name when it is complete.
     */
    private Path unpacked(URL packed, URL checksum) {
        try {
            if (checksum == null) {
                throw new IOException("its checksum is missing");
            }
            String sum;
            try (InputStream in = checksum.openStream()) {
                sum = new String(in.readNBytes(64), StandardCharsets.US_ASCII);
            }
            if (!sum.matches("[0-9a-f]{64}")) {
                throw new IOException("its checksum is " + sum);
            }
            Path folder = writable(cacheFolder().resolve(sum.substring(0, 32)));
            Path path = folder.resolve(executable());
            if (Files.isExecutable(path)) {
                return path;
            }
            Path copy = Files.createTempFile(folder, "stator", ".part"); // only this user may read and write it
            try (InputStream in = packed.openStream()) {
                Files.copy(in, copy, StandardCopyOption.REPLACE_EXISTING);
                if (!copy.toFile().setExecutable(true)) {
                    throw new IOException(copy + " cannot be made executable");
                }
                Files.move(copy, path, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(copy);
            }
            return path;
        } catch (IOException e) {
            throw new UncheckedIOException("unpack " + packed + ": " + e + "\n        set " + VARIABLE + " to the path of a stator", e);
        }
    }

    private Path cacheFolder() {
        String folder = environment.get(platform().startsWith("windows-") ? "LOCALAPPDATA" : "XDG_CACHE_HOME");
        Path parent = folder != null && Path.of(folder).isAbsolute() ? Path.of(folder) : Path.of(properties.apply("user.home"), ".cache");
        return parent.resolve("stator-db").toAbsolutePath();
    }

    /** Returns a folder, or a temporary one if it cannot be made: in containers, users may have no home. */
    private Path writable(Path folder) throws IOException {
        try {
            Files.createDirectories(folder);
            if (Files.isWritable(folder) || Files.isExecutable(folder.resolve(executable()))) {
                return folder;
            }
        } catch (IOException e) {
            // A temporary folder takes its place.
        }
        Path temporary = Files.createTempDirectory("stator-db");
        temporary.toFile().deleteOnExit(); // after what is in it
        temporary.resolve(executable()).toFile().deleteOnExit();
        return temporary;
    }
}
