package io.lakeward;

import io.delta.storage.LocalLogStore;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;

/**
 * Commits of Delta tables on a folder of this machine: a version is taken by link(2), which the file system grants once.
 *
 * Delta's own store looks whether a version is there and then renames, so two processes can both take it and the later
 * one's rows are all that is left. See docs/adr/0045.
 */
public class LinkLogStore extends LocalLogStore {
    public LinkLogStore(Configuration conf) {
        super(conf);
    }

    /** Delta's contract: FileAlreadyExistsException when the version is taken; readers see a whole commit or none. */
    public void write(org.apache.hadoop.fs.Path path, Iterator actions, Boolean overwrite, Configuration conf)
            throws IOException {
        if (overwrite.booleanValue()) { // _last_checkpoint, a hint: the last writer is right
            super.write(path, actions, overwrite, conf);
            return;
        }
        Path version = Paths.get(path.toUri().getPath(), new String[0]);
        // The name Delta gives its own: its clean-up and every reader of the log pass it over.
        Path fresh = version.resolveSibling("." + version.getFileName() + "." + UUID.randomUUID() + ".tmp");
        try {
            BufferedWriter out = Files.newBufferedWriter(fresh, StandardCharsets.UTF_8, new java.nio.file.OpenOption[0]);
            try {
                while (actions.hasNext()) {
                    out.write((String) actions.next());
                    out.write('\n');
                }
            } finally {
                out.close();
            }
            link(version, fresh);
        } finally {
            Files.deleteIfExists(fresh);
        }
    }

    private static void link(Path version, Path fresh) throws IOException {
        try {
            Files.createLink(version, fresh);
        } catch (FileAlreadyExistsException taken) {
            throw taken;
        } catch (UnsupportedOperationException no) {
            throw new IOException("Delta tables need a file system with hard links: " + version.getParent(), no);
        }
    }
}
