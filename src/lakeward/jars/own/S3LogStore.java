package io.lakeward;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Commits of Delta tables on an S3 store: a version is taken by a conditional PUT (If-None-Match), which the store grants
 * once. See docs/adr/0113.
 *
 * A commit carries a mark of its own in the object's user metadata. When the answer of the store is lost, or a retry of
 * the request meets its own first try, the mark of the object that is there decides whose commit it is.
 */
public class S3LogStore extends HadoopFileSystemLogStore {
    /** The first words of the error about a store that overwrites; the callers in Python read them. */
    public static final String IGNORES = "The object store ignores If-None-Match";
    private static final String MARK = "lakeward-commit";
    private static final int ATTEMPTS = 3;
    /** Buckets that refused to overwrite, by the kind of the upload. */
    private static final Set TRIED = Collections.synchronizedSet(new HashSet());

    public S3LogStore(Configuration conf) {
        super(conf);
    }

    /** Delta's contract: FileAlreadyExistsException when the version is taken; readers see a whole commit or none. */
    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            text.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            text.write('\n');
        }
        byte[] content = text.toByteArray();
        if (overwrite.booleanValue()) { // _last_checkpoint, a hint: the last writer is right
            send(path.getFileSystem(conf).create(path, true), content);
            return;
        }
        if (!create(path, content, conf)) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    public Boolean isPartialWriteVisible(Path path, Configuration conf) {
        return Boolean.FALSE; // an object appears when its upload is complete
    }

    /**
     * Create an object. False: the name is taken.
     *
     * IOException: the object was not created, or the store does not say; a later attempt at the same name is safe.
     */
    public static boolean create(Path path, byte[] content, Configuration conf) throws IOException {
        FileSystem store = path.getFileSystem(conf);
        boolean parts = content.length >= conf.getLongBytes("fs.s3a.multipart.size", 64L << 20);
        trial(path.getParent(), parts, conf);
        String mark = UUID.randomUUID().toString();
        for (int attempt = 1;; attempt++) {
            try {
                put(store, path, content, mark, parts);
                return true;
            } catch (IOException unknown) { // refused, failed, or done and the answer was lost
                String found = markOf(store, path);
                if (found != null) {
                    return found.equals(mark);
                }
                if (attempt == ATTEMPTS) {
                    throw unknown;
                }
            }
        }
    }

    /**
     * Check, once a process and bucket, that the store refuses the second creation of an object.
     *
     * IOException: it does not, or it does not answer.
     *
     * parts: by an upload in parts; a store may know the header for whole objects only.
     */
    public static void trial(Path folder, boolean parts, Configuration conf) throws IOException {
        FileSystem store = folder.getFileSystem(conf);
        String bucket = store.getUri() + " " + parts;
        if (TRIED.contains(bucket)) {
            return;
        }
        // Hidden from Delta's clean-up and from every reader of the log.
        Path object = new Path(folder, ".lakeward-trial-" + UUID.randomUUID() + ".tmp");
        String first = UUID.randomUUID().toString();
        try {
            put(store, object, new byte[] {'1'}, first, parts);
            try {
                put(store, object, new byte[] {'2'}, UUID.randomUUID().toString(), parts);
            } catch (IOException refused) {
                if (!first.equals(markOf(store, object))) {
                    throw refused;
                }
                TRIED.add(bucket);
                return;
            }
        } finally {
            store.delete(object, false);
        }
        throw new IOException(IGNORES + (parts ? " in uploads of several parts: " : ": ") + store.getUri());
    }

    /**
     * `trial FOLDER KEY=VALUE...` or `create FILE KEY=VALUE...` with the content on stdin: for processes without Spark.
     *
     * It ends with 0; with 3 if the name is taken; with 1 and the reason on stderr.
     */
    public static void main(String[] words) {
        int answer = 0;
        try {
            Configuration conf = new Configuration();
            for (int each = 2; each < words.length; each++) {
                int end = words[each].indexOf('=');
                conf.set(words[each].substring(0, end), words[each].substring(end + 1));
            }
            Path place = new Path(words[1]);
            if (words[0].equals("trial")) {
                trial(place, false, conf);
            } else if (!create(place, System.in.readAllBytes(), conf)) {
                answer = 3;
            }
        } catch (IOException failed) {
            System.err.println(failed);
            answer = 1;
        }
        System.exit(answer);
    }

    private static void put(FileSystem store, Path path, byte[] content, String mark, boolean parts)
            throws IOException {
        FSDataOutputStreamBuilder request = store.createFile(path);
        request.must("fs.option.create.conditional.overwrite", "true");
        request.must("fs.s3a.create.header." + MARK, mark);
        request.opt("fs.s3a.create.multipart", String.valueOf(parts));
        send((FSDataOutputStream) request.build(), content);
    }

    /** Upload an object; nothing is created if its bytes cannot be collected. */
    private static void send(FSDataOutputStream out, byte[] content) throws IOException {
        try {
            out.write(content);
        } catch (IOException failed) {
            out.abort();
            throw failed;
        }
        out.close();
    }

    /** The mark of the object that is there, empty if it has none; null: there is no object. */
    private static String markOf(FileSystem store, Path path) throws IOException {
        try {
            byte[] mark = store.getXAttr(path, "header." + MARK);
            return mark == null ? "" : new String(mark, StandardCharsets.UTF_8);
        } catch (FileNotFoundException absent) {
            return null;
        }
    }
}
