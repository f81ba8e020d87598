// Adds a token to every request for /mcp, because the conformance program cannot send one. Arguments: the address of the
// server, and a token. It prints its own address. Host and Origin reach the server as they come, so that it checks them.
import http from 'node:http';

const [target, token] = process.argv.slice(2);
const { hostname, port } = new URL(target);

const proxy = http.createServer((request, response) => {
  // The server knows itself by its own port; a loopback name with any port is its own as well.
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const { method, url: path } = request;
  const onward = http.request({ hostname, port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});
proxy.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${proxy.address().port}`));
