package lakeward.faults;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Steps inside the JVM at which a test makes one stream wait to be killed: Python's failpoints do not see them.
 *
 * <p>Each line of `jvm.rules` in the folder of failpoints is: event, regular expression, least batch, marker, with tabs
 * between. The expression must match "path thread pool"; its first group, if there is one, is a batch number.
 */
public final class Pausing {
  private static final String FOLDER = System.getenv("LAKEWARD_FAILPOINT_FOLDER");

  private Pausing() {}

  static void at(String event, String path) throws IOException {
    java.nio.file.Path rules = Paths.get(FOLDER == null ? "/nonexistent" : FOLDER, "jvm.rules");
    if (!Files.exists(rules)) {
      return;
    }
    TaskContext task = TaskContext.get();
    String pool = task == null ? "" : task.getLocalProperty("spark.scheduler.pool");
    String subject = path + " " + Thread.currentThread().getName() + " pool=" + pool;
    for (String line : Files.readAllLines(rules)) {
      String[] rule = line.split("\t");
      Matcher found = Pattern.compile(rule[1]).matcher(subject);
      if (!rule[0].equals(event) || !found.find()) {
        continue;
      }
      if (found.groupCount() > 0 && Long.parseLong(found.group(1)) < Long.parseLong(rule[2])) {
        continue;
      }
      Files.write(Paths.get(rule[3]), new byte[0]);
      while (true) {
        try {
          Thread.sleep(3_600_000L);
        } catch (InterruptedException interrupted) {
          // Whoever wants it to go on has to kill it.
        }
      }
    }
  }

  /** The files of tables: waits once a file was opened. */
  public static final class Tables extends LocalFileSystem {
    @Override
    public FSDataOutputStream create(
        Path file, FsPermission rights, boolean overwrite, int buffer, short copies, long block, Progressable progress)
        throws IOException {
      FSDataOutputStream made = super.create(file, rights, overwrite, buffer, copies, block, progress);
      at("create", file.toString());
      return made;
    }
  }

  /** Spark's offset log and commit log: waits before an entry is written, or once it stands there. */
  public static final class Checkpoints extends FileSystemBasedCheckpointFileManager {
    public Checkpoints(Path path, Configuration conf) {
      super(path, conf);
    }

    @Override
    public FSDataOutputStream createTempFile(Path path) {
      pause("before", path);
      return super.createTempFile(path);
    }

    @Override
    public void renameTempFile(Path from, Path to, boolean overwrite) {
      super.renameTempFile(from, to, overwrite);
      pause("after", to);
    }

    private static void pause(String event, Path path) {
      try {
        at(event, path.toString());
      } catch (IOException wrong) {
        throw new java.io.UncheckedIOException(wrong);
      }
    }
  }
}
