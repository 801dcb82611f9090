package platform.client;

import com.google.protobuf.Message;
import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import platform.client.Receipts.Place;
import platform.sdk.v1.Receipt;

/**
 * A stream of items that goes on after a cut: it opens another one as the {@link RetryPolicy} says, and sends again whatever
 * was not acknowledged, in the same order under the same keys, before anything new. Nothing is lost, and nothing recorded
 * twice. Attempts count from the last acknowledgement; the client's deadline bounds no stream. When they are used up, or where
 * trying again does not help, the stream is over, and {@link #unacknowledged} has the items that are left.
 *
 * <p>Any number of threads may send on it.
 *
 * @param <I> items, each with its idempotency key
 * @param <R> what becomes of them
 */
public final class ResumingStream<I extends Message, R extends Message> implements AutoCloseable {
  private final StreamKind<?, ?, I, R> kind;
  private final Calls calls;
  private final List<String> logKeys;
  private final StreamOptions limits;

  /** Senders wait for room here, in order. */
  private final ReentrantLock sending = new ReentrantLock(true);

  private final ReentrantLock lock = new ReentrantLock();

  // All below under the lock.

  /** There is room, or the stream is closing or over. */
  private final Condition changed = lock.newCondition();

  /** All that is not acknowledged, in order. All of it has been sent on the connection, where there is one. */
  private final ArrayDeque<Sent<I, R>> queue = new ArrayDeque<>();

  /** Where the latest records are, as many as a bulk call has items, and the key of the item that each answers. */
  private final Map<Place, String> owners =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Place, String> eldest) {
          return size() > 1_000;
        }
      };

  private long bytes;
  private long nextSequence;

  /** Null while there is none. */
  private Connection connection;

  /** Since the last acknowledgement. */
  private int attempts;

  /** Of this attempt. */
  private boolean isNonceTaken;

  private boolean isOpeningLater;
  private long notBeforeNanos = System.nanoTime();
  private boolean isClosing;
  private boolean isOver;

  /** Of a stream that was given up; else null. */
  private PlatformException failure;

  /** Since when it is the stream's; empty where it may have been recorded before under a key of its own. */
  private record Sent<I, R>(long sequence, I item, Optional<Instant> since, CompletableFuture<R> result) {}

  ResumingStream(StreamKind<?, ?, I, R> kind, Calls calls, List<String> logKeys, StreamOptions limits) {
    this.kind = kind;
    this.calls = calls;
    this.logKeys = logKeys;
    this.limits = limits;
  }

  /**
   * Hands an item over. Waits while the stream has no room for it.
   *
   * @param item without an idempotency key it is given one
   * @return what became of it, once it is durable or refused for good: a refused item has a result too. It fails with a {@link
   *     PlatformException} where the stream is given up; and, where the client has log keys, with a {@link ReceiptException}
   *     that has the result, where its receipt does not verify. What depends on it runs on a thread that the stream needs, and
   *     must not wait: see {@link CompletableFuture#thenAcceptAsync}
   * @throws PlatformException where the stream was given up, or the thread interrupted: the item is then not the stream's
   * @throws IllegalStateException where it is closed
   */
  public CompletableFuture<R> send(I item) {
    Optional<Instant> since = BulkItems.key(item).isPresent() ? Optional.empty() : Optional.of(Instant.now());
    I keyed = kind.keyed(item);
    int size = keyed.getSerializedSize();
    try {
      sending.lockInterruptibly();
      try {
        return sendInTurn(keyed, since, size);
      } finally {
        sending.unlock();
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new PlatformException(Status.Code.CANCELLED, "interrupted before the item was sent", stopped);
    }
  }

  private CompletableFuture<R> sendInTurn(I item, Optional<Instant> since, int size) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      while (!isClosing && !isOver && !hasRoom(size)) changed.await();
      if (failure != null) throw new PlatformException(failure);
      if (isClosing || isOver) throw new IllegalStateException("the stream is closed");
      Sent<I, R> sent = new Sent<>(nextSequence++, item, since, new CompletableFuture<>());
      queue.add(sent);
      bytes += size;
      if (connection == null) open();
      else connection.line.send(sent.sequence(), item);
      return sent.result();
    } finally {
      lock.unlock();
    }
  }

  private boolean hasRoom(int size) {
    return queue.isEmpty()
        || (queue.size() < limits.maxUnacknowledgedItems() && bytes + size <= limits.maxUnacknowledgedBytes());
  }

  /**
   * Takes no more items, waits until all are acknowledged, and ends the stream. A thread that is interrupted meanwhile aborts
   * it.
   *
   * @throws PlatformException where the stream was given up
   */
  @Override
  public void close() {
    lock.lock();
    try {
      if (!isClosing && connection != null) connection.line.halfClose();
      isClosing = true;
      changed.signalAll();
      if (queue.isEmpty() && connection == null) end(null);
      // When everything is acknowledged the service ends the stream; it is not waited for without end.
      long leftNanos = calls.deadline().toNanos();
      while (!isOver) {
        if (!queue.isEmpty()) changed.await();
        else if (leftNanos > 0) leftNanos = changed.awaitNanos(leftNanos);
        else end(null);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      end(new PlatformException(Status.Code.CANCELLED, "interrupted before everything was acknowledged", stopped));
    } finally {
      lock.unlock();
    }
    failAll();
    if (failure != null) throw new PlatformException(failure);
  }

  /**
   * Ends the stream at once. What was not acknowledged may have been recorded or not: it is in {@link #unacknowledged}, and its
   * results fail. Does nothing to a stream that is over.
   */
  public void abort() {
    lock.lock();
    try {
      end(new PlatformException(Status.Code.CANCELLED, "the stream was aborted", null));
    } finally {
      lock.unlock();
    }
    failAll();
  }

  /**
   * What was not acknowledged. Sent again under its keys, on another stream or in another program, it is not
   * recorded twice.
   *
   * @return in order, each item with its key
   */
  public List<I> unacknowledged() {
    lock.lock();
    try {
      return queue.stream().map(Sent::item).toList();
    } finally {
      lock.unlock();
    }
  }

  /** Under the lock: there will be no connection any more. Afterwards {@link #failAll}, without it. */
  private void end(PlatformException problem) {
    if (isOver) return;
    isOver = true;
    failure = problem;
    if (connection != null) connection.line.cancel();
    connection = null;
    changed.signalAll();
  }

  /** Tells those who wait for results of a stream that is over. */
  private void failAll() {
    List<Sent<I, R>> left;
    lock.lock();
    try {
      left = isOver ? List.copyOf(queue) : List.of();
    } finally {
      lock.unlock();
    }
    left.forEach(sent -> sent.result().completeExceptionally(failure));
  }

  /** Under the lock: opens a connection, now or when it is time. */
  private void open() {
    long waitNanos = notBeforeNanos - System.nanoTime();
    if (waitNanos <= 0) {
      attempts++;
      isNonceTaken = false;
      calls.connectAtOnce();
      connection = new Connection();
    } else if (!isOpeningLater) {
      isOpeningLater = true;
      CompletableFuture.delayedExecutor(waitNanos, TimeUnit.NANOSECONDS).execute(this::openLater);
    }
  }

  private void openLater() {
    lock.lock();
    try {
      isOpeningLater = false;
      if (!isOver && connection == null) open();
    } finally {
      lock.unlock();
    }
  }

  /** One connection after the other, and what is heard of it. */
  private final class Connection implements StreamKind.Listener<R> {
    final Attempt attempt = new Attempt();
    final StreamKind.Line<I> line;

    /** Under the lock. Everything that is left is sent first. */
    Connection() {
      line = kind.open(calls, attempt, this);
      for (Sent<I, R> sent : queue) line.send(sent.sequence(), sent.item());
      if (isClosing) line.halfClose();
    }

    @Override
    public void onAcknowledged(List<StreamKind.Acknowledgement<R>> items) {
      List<Sent<I, R>> taken;
      lock.lock();
      try {
        if (connection != this) return;
        taken = take(items);
      } finally {
        lock.unlock();
      }
      if (taken == null) failAll();
      else for (int i = 0; i < taken.size(); i++) settle(taken.get(i), items.get(i).result());
    }

    /** All of it or, where one of them cannot be, nothing: then the stream is over, and null. */
    private List<Sent<I, R>> take(List<StreamKind.Acknowledgement<R>> items) {
      List<Sent<I, R>> taken = queue.stream().limit(items.size()).toList();
      for (int i = 0; i < items.size(); i++) {
        StreamKind.Acknowledgement<R> one = items.get(i);
        boolean isNext = i < taken.size() && taken.get(i).sequence() == one.sequence();
        if (!isNext || !kind.isSameKey(taken.get(i).item(), one.result()) || !ownsRecord(one.result())) {
          String problem = "the service acknowledged item " + one.sequence() + ", which cannot be";
          end(new PlatformException(Status.Code.INTERNAL, problem, null));
          return null;
        }
      }
      for (Sent<I, R> sent : taken) {
        queue.remove();
        bytes -= sent.item().getSerializedSize();
      }
      if (!taken.isEmpty()) {
        attempts = 0;
        changed.signalAll();
      }
      return taken;
    }

    /** Items may ask the same, so that a record does not tell whose it is. Those with one key have one record. */
    private boolean ownsRecord(R result) {
      Optional<Receipt> receipt = Answers.receipt(result);
      if (receipt.isEmpty()) return true;
      String key = BulkItems.key(result).orElseThrow();
      String owner = owners.putIfAbsent(new Place(receipt.get().getLogOrigin(), receipt.get().getLeafIndex()), key);
      return owner == null || owner.equals(key);
    }

    private void settle(Sent<I, R> sent, R result) {
      try {
        if (!logKeys.isEmpty()) {
          Optional<VerifiedReceipt> verified =
              Receipts.verifyItem(sent.item(), result, Optional.empty(), calls.sender(sent.since()), logKeys);
          if (verified.isEmpty() && BulkItems.isAnswered(result) && calls.asksForReceipts())
            throw new ReceiptException("the item has no receipt");
          verified.ifPresent(calls::requireAsked);
        }
        sent.result().complete(result);
      } catch (ReceiptException wrong) {
        sent.result().completeExceptionally(new ReceiptException(wrong.getMessage(), result, wrong));
      }
    }

    @Override
    public void onEnd(Status status, Metadata trailers) {
      PlatformException problem =
          status.isOk()
              ? new PlatformException(Status.Code.UNAVAILABLE, "the service ended the stream", null)
              : PlatformException.of(status.asRuntimeException(trailers));
      calls.forgetToken(attempt, problem);
      Optional<Duration> pause = Optional.empty();
      lock.lock();
      try {
        if (connection != this) return;
        connection = null;
        pause = goOn(problem);
      } finally {
        lock.unlock();
      }
      failAll();
      pause.ifPresent(
          wait -> {
            calls.onRetry().accept(problem, wait);
            openLater();
          });
    }

    /** Under the lock, after the end: how long to wait before another connection is opened, where there is one to be. */
    private Optional<Duration> goOn(PlatformException problem) {
      boolean isDone = queue.isEmpty();
      if (isDone && isClosing) {
        end(null);
      } else if (attempt.isNonceDemanded() && !isNonceTaken) {
        isNonceTaken = true;
        connection = new Connection();
      } else if (calls.isShutdown() || !mayResume(problem) || (!isDone && attempts >= calls.retry().maxAttempts())) {
        end(problem);
      } else {
        Duration told = problem.retryAfter().orElse(Duration.ZERO);
        Duration pause = isDone ? told : calls.retry().pause(problem, Math.max(1, attempts));
        notBeforeNanos = System.nanoTime() + pause.toNanos();
        return isDone ? Optional.empty() : Optional.of(pause);
      }
      return Optional.empty();
    }
  }

  /** What single calls are sent again after, a stream on which nothing came, and a token that has expired. */
  private static boolean mayResume(PlatformException problem) {
    return RetryPolicy.mayHelp(problem)
        || problem.code() == Status.Code.DEADLINE_EXCEEDED
        || Calls.hasExpired(problem);
  }
}
