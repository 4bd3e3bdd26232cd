-- What wrk sends: decisions with new ids, or outcomes of decisions whose ids are numbers.
-- Arguments: key, what (decisions or outcomes), first number, how many in a request (0: one, not in a list),
-- how many experiments, asked in turn, the number of the first (0: e0), mean pause of a connection in milliseconds
-- (0: none).

local heads, number, size, experiments, pause, asked, outcomes = {}, 0, 0, 1, 0, 0, false
local format, concat, random, log = string.format, table.concat, math.random, math.log

local function body()
   if size == 0 then
      number = number + 1
      if outcomes then return format('{"decision":"%016d","loss":0.5}', number) end
      return format('{"id":"%016d"}', number)
   end
   local parts = {}
   for k = 1, size do
      number = number + 1
      parts[k] = format(outcomes and '{"decision":"%016d","loss":0.5}' or '{"id":"%016d"}', number)
   end
   return "[" .. concat(parts, ",") .. "]"
end

function init(args)
   outcomes, number, size = args[2] == "outcomes", tonumber(args[3]), tonumber(args[4])
   experiments, pause = tonumber(args[5]), tonumber(args[7])
   local before = number
   local length = #body()  -- numbers have a fixed width, so that every body is as long
   number = before
   for k = 0, experiments - 1 do
      heads[k] = format(
         "POST /v1/experiments/e%d/%s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
         k + tonumber(args[6]), args[2], args[1], length
      )
   end
   math.randomseed(1)
   if pause > 0 then
      function delay() return -pause * log(1 - random()) end
   end
end

function request()
   local head = heads[asked % experiments]
   asked = asked + 1
   return head .. body()
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(format(
      '\n@{"answered":%d,"seconds":%f,"refused":%d,"lost":%d,"p50":%f,"p99":%f,"most":%f}\n',
      summary.requests, summary.duration / 1e6, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout,
      latency:percentile(50) / 1e6, latency:percentile(99) / 1e6, latency.max / 1e6
   ))
end
