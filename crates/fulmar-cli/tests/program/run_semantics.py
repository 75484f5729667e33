"""What programs do around connect(): it must be the same with `fulmar run` and without."""
import array, asyncio, ctypes, errno, hashlib, os, select, signal, socket, subprocess, sys, threading, time

IP, PORT, CARRIED = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "carried"
HERE, NOBODY, SILENT, UNREACHABLE = (IP, PORT), (IP, 1), ("203.0.113.8", 80), ("203.0.113.9", 80)
ERROR = (socket.SOL_SOCKET, socket.SO_ERROR)


def talk(s):
    s.setblocking(True)
    s.sendall(b"hello\n")
    s.shutdown(socket.SHUT_WR)
    assert s.makefile("rb").read().decode() == hashlib.sha256(b"hello\n").hexdigest()
    s.close()


def begin(address, family=socket.AF_INET):
    s = socket.socket(family)
    s.setblocking(False)
    assert s.connect_ex(address) == errno.EINPROGRESS
    return s


def wait_with_select(s):
    select.select([], [s], [], 30)


def wait_with_poll(s):
    p = select.poll()
    p.register(s, select.POLLOUT)
    p.poll(30_000)


def wait_with_epoll(s):
    p = select.epoll()
    p.register(s, select.EPOLLOUT | select.EPOLLET)
    p.poll(30)


for wait in wait_with_select, wait_with_poll, wait_with_epoll:
    s = begin(HERE)
    wait(s)
    assert s.getsockopt(*ERROR) == 0 and s.getpeername() == HERE
    talk(s)
    s = begin(NOBODY)
    wait(s)
    assert s.getsockopt(*ERROR) == errno.ECONNREFUSED and s.getsockopt(*ERROR) == 0
    s = begin(NOBODY)
    wait(s)
    assert s.connect_ex(NOBODY) == errno.ECONNREFUSED

# A socket in vain: it stays under way, and its time limit is the program's.
s = begin(SILENT)
assert s.connect_ex(SILENT) == errno.EALREADY
assert select.select([], [s], [], 0.2)[1] == [] and s.getsockopt(*ERROR) == 0
try:
    s.getpeername()
    raise AssertionError("connected with nobody")
except OSError as error:
    assert error.errno == errno.ENOTCONN
s.close()
try:
    socket.create_connection(SILENT, timeout=0.2)
    raise AssertionError("connected with nobody")
except TimeoutError:
    pass

# Blocking; the same socket once more; IPv4 by a socket of IPv6; an address of one's own choice.
s = socket.socket()
assert s.connect_ex(NOBODY) == errno.ECONNREFUSED
assert s.connect_ex(HERE) == 0 and s.connect_ex(HERE) == errno.EISCONN
talk(s)
assert socket.socket().connect_ex(UNREACHABLE) == errno.EHOSTUNREACH
s = socket.socket(socket.AF_INET6)
s.connect(("::ffff:" + IP, PORT))
assert s.getpeername()[:2] == ("::ffff:" + IP, PORT)
talk(s)
s = socket.socket()
s.bind((IP, 0))
s.connect(HERE)
talk(s)

# A signal interrupts `connect`, which goes on; a handler's exception ends it.
def alarm(*_):
    raise InterruptedError("in time")


signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    socket.socket().connect(SILENT)
    raise AssertionError("connected with nobody")
except InterruptedError as error:
    assert str(error) == "in time"
heard = []
signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(20):
    s = socket.socket()
    s.connect(HERE)
    talk(s)
    assert socket.socket().connect_ex(NOBODY) == errno.ECONNREFUSED
signal.setitimer(signal.ITIMER_REAL, 0)
assert heard

# Threads, fork, exec with a socket handed on (vfork inside), descriptors by a Unix socket.
threads = [threading.Thread(target=lambda: talk(socket.create_connection(HERE))) for _ in range(32)]
[t.start() for t in threads]
[t.join() for t in threads]
if os.fork() == 0:
    talk(socket.create_connection(HERE))
    os._exit(0)
assert os.wait()[1] == 0
s = socket.create_connection(HERE)
peer = "import socket, sys; print(socket.socket(fileno=int(sys.argv[1])).getpeername())"
told = subprocess.run([sys.executable, "-c", peer, str(s.fileno())], pass_fds=[s.fileno()], capture_output=True)
assert told.stdout.decode().strip() == str(HERE), told
left, right = socket.socketpair(socket.AF_UNIX)
socket.send_fds(left, [b"x"], [s.fileno()])
s.close()
talk(socket.socket(fileno=socket.recv_fds(right, 1, 1)[1][0]))


async def with_loop():
    reader, writer = await asyncio.open_connection(*HERE)
    writer.write(b"hello\n")
    writer.write_eof()
    assert (await reader.read()).decode() == hashlib.sha256(b"hello\n").hexdigest()
    try:
        await asyncio.open_connection(*NOBODY)
        raise AssertionError("connected with nobody")
    except ConnectionRefusedError:
        pass


asyncio.run(with_loop())

# What stays on this machine stays as it is.
server = socket.create_server(("127.0.0.1", 0))
s = socket.create_connection(server.getsockname())
assert server.accept()[1] == s.getsockname() and s.getpeername() == server.getsockname()
assert socket.socket().connect_ex(("127.0.0.1", 1)) == errno.ECONNREFUSED
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(HERE)
assert udp.getpeername() == HERE
assert socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4] == ("127.0.0.1", 80)
assert socket.gethostbyname("0x7f.1") == "127.0.0.1"

if CARRIED:
    libc = ctypes.CDLL(None, use_errno=True)
    IO_URING_SETUP = 425
    assert libc.syscall(IO_URING_SETUP, 8, 0) == -1 and ctypes.get_errno() == errno.ENOSYS
    kind = socket.SOCK_STREAM
    ((_, _, _, name, address),) = socket.getaddrinfo("no-such-name.invalid", 80, type=kind, flags=socket.AI_CANONNAME)
    assert name == "no-such-name.invalid" and address[0].startswith("198.18."), (name, address)
    assert socket.gethostbyname("no-such-name.invalid") == address[0]
    assert socket.getnameinfo(address, 0) == ("no-such-name.invalid", "http")
    assert socket.getaddrinfo("no-such-name.invalid", 80, socket.AF_INET6, kind)[0][4][0].startswith("2001:2::")
    assert socket.socket().connect_ex(address) == errno.EHOSTUNREACH
    assert socket.socket().connect_ex(("198.18.77.77", 80)) == errno.EHOSTUNREACH
    # 262 is Multipath TCP; programs fall back to TCP.
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
        raise AssertionError("Multipath TCP")
    except OSError as error:
        assert error.errno == errno.EPROTONOSUPPORT
    MSG_FASTOPEN = 0x20000000
    try:
        socket.socket().sendto(b"x", MSG_FASTOPEN, HERE)
        raise AssertionError("TCP Fast Open")
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP

# Nothing is left open.
def descriptors():
    return len(os.listdir("/proc/self/fd"))


before = descriptors()
for _ in range(50):
    talk(socket.create_connection(HERE))
assert descriptors() == before
print("as it should be")
