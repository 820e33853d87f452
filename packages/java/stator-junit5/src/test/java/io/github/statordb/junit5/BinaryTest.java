package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.UncheckedIOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

@DisabledOnOs(OS.WINDOWS) // the binaries are scripts
class BinaryTest {
    private final Map<String, String> properties = new HashMap<>();
    private final Map<String, String> environment = new HashMap<>();

    @TempDir
    Path folder;

    @BeforeEach
    void platform() {
        properties.putAll(Map.of("os.name", "Linux", "os.arch", "amd64", "user.home", folder.toString()));
    }

    private Path path() throws Exception {
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.resolve("classes").toUri().toURL()}, null)) {
            return new StatorBinary(properties::get, environment, loader).path();
        }
    }

    private Path program(String name) throws Exception {
        Path path = folder.resolve(name);
        Files.createDirectories(path.getParent());
        Files.writeString(path, "#!/bin/sh\n");
        assertTrue(path.toFile().setExecutable(true));
        return path;
    }

    @Test
    void theFirstPlaceIsUsed() throws Exception {
        Path onPath = program("bin/stator");
        environment.put("PATH", "no\0path" + File.pathSeparator + folder.resolve("none") + File.pathSeparator + onPath.getParent());
        assertEquals(onPath, path());

        Path packed = program("classes/META-INF/stator/linux-amd64/stator");
        Files.writeString(packed.resolveSibling("stator.sha256"), "0123456789abcdef".repeat(4));
        Path unpacked = path();
        assertEquals(folder.resolve(".cache/stator-db/0123456789abcdef0123456789abcdef/stator"), unpacked);
        assertTrue(Files.isExecutable(unpacked));
        assertEquals(1, unpacked.getParent().toFile().list().length);
        assertEquals(unpacked, path());
        environment.put("XDG_CACHE_HOME", folder.resolve("other").toString());
        assertEquals(folder.resolve("other/stator-db/0123456789abcdef0123456789abcdef/stator"), path());
        environment.put("XDG_CACHE_HOME", onPath.toString()); // no folder can be made in a file
        Path temporary = path();
        assertTrue(temporary.startsWith(System.getProperty("java.io.tmpdir")) && Files.isExecutable(temporary), temporary.toString());

        environment.put(StatorBinary.VARIABLE, program("variable").toString());
        assertEquals(folder.resolve("variable"), path());
        properties.put(StatorBinary.PROPERTY, program("property").toString());
        assertEquals(folder.resolve("property"), path());
    }

    @Test
    void errorsSayWhatToDo() throws Exception {
        String missing = assertThrows(IllegalStateException.class, this::path).getMessage();
        for (String want : new String[] {"META-INF/stator/linux-amd64/stator on the class path", "the folders of PATH",
                "Add the dependency io.github.stator-db:stator-binary-linux-amd64", "set STATOR_BINARY to the path of a stator"}) {
            assertTrue(missing.contains(want), missing);
        }
        environment.put(StatorBinary.VARIABLE, folder.resolve("gone").toString());
        String wrong = assertThrows(IllegalStateException.class, this::path).getMessage();
        assertTrue(wrong.startsWith("the environment variable STATOR_BINARY is " + folder.resolve("gone")), wrong);

        environment.remove(StatorBinary.VARIABLE);
        Path packed = program("classes/META-INF/stator/linux-amd64/stator");
        Files.writeString(packed.resolveSibling("stator.sha256"), "../../elsewhere");
        assertTrue(assertThrows(UncheckedIOException.class, this::path).getMessage().contains("its checksum is ../../elsewhere"));
    }

    @Test
    void platformsHaveTheNamesOfTheArtifacts() {
        for (String[] c : new String[][] {
            {"Linux", "amd64", "linux-amd64"}, {"Linux", "aarch64", "linux-arm64"}, {"Mac OS X", "x86_64", "darwin-amd64"},
            {"Mac OS X", "aarch64", "darwin-arm64"}, {"Windows 11", "amd64", "windows-amd64"}, {"Windows 11", "aarch64", "windows-arm64"},
        }) {
            properties.putAll(Map.of("os.name", c[0], "os.arch", c[1]));
            assertEquals(c[2], new StatorBinary(properties::get, environment, null).platform());
        }
        assertNotEquals("", new StatorBinary(System::getProperty, environment, null).platform());
    }
}
